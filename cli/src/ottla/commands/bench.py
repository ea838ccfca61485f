"""`ottla bench`: load against any Kafka cluster, with rates and percentiles seen from the client."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from ottla.commands.produce import Acks, Compression, producer_settings
from ottla.kafka_client import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    ClientProperties,
    Json,
    admin_client,
    close,
    consumer_client,
    partition_count,
    producer_client,
)
from ottla.load.drivers import LoadResult, latency_load, publish_load, read_load
from ottla.load.measurement import spread_of, throughput
from ottla.output import note, print_json, print_table, progress_bar
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.interruptible import interruptible
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, plain_errors, topics_of
from ottla_operations.quantities import human_bytes

TOPIC_DEFAULT = "ottla-bench"
LATENCY_TOPIC_DEFAULT = "ottla-bench-latency"

Records = Annotated[int, typer.Option("--records", "-n", min=1, help="How many records.")]
Size = Annotated[int, typer.Option("--size", "-s", min=0, help="Bytes of each value.")]


def produce(
    *,
    topic: Annotated[str, typer.Option(help="Created if it is not there.")] = TOPIC_DEFAULT,
    records: Records = 500_000,
    size: Size = 1024,
    partitions: Annotated[int, typer.Option(min=1, help="Of the topic, if it is created.")] = 1,
    rate: Annotated[
        float | None, typer.Option(min=0.001, show_default="as fast as possible", help="Records per second.")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="Wait for none, the leader, or all in-sync replicas.")] = Acks.ALL,
    compression: Annotated[Compression, typer.Option("--compression", "-z", help="Codec.")] = Compression.NONE,
    idempotence: Annotated[
        bool | None,
        typer.Option(
            "--idempotence/--no-idempotence", show_default="on with acks all", help="Retry without doubles."
        ),
    ] = None,
    linger_ms: Annotated[float, typer.Option(min=0, help="Milliseconds a batch waits for more records.")] = 5,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Publish as fast as possible, or at a steady rate. The latency is from handing over to acknowledgement.

    [bold]Examples[/bold]

      ottla bench produce

      ottla bench produce --records 2000000 --size 100 --partitions 6 -z lz4

      ottla bench produce --rate 1000 --records 20000 --json
    """  # fmt: skip
    settings = {
        **producer_settings(compression.value, acks.value, idempotence),
        "linger.ms": linger_ms,
        "queue.buffering.max.messages": 500_000,
    }
    _ensure_topic(topic, partitions, bootstrap, properties)
    producer = producer_client(bootstrap, properties, settings)
    with progress_bar() as progress, plain_errors(bootstrap):
        shown = progress.add_task("publishing", total=records)
        result = publish_load(
            producer,
            topic,
            records=records,
            size_bytes=size,
            rate=rate,
            advance=lambda done: progress.update(shown, completed=done),
        )
    _show("produce", bootstrap, topic, result, as_json=as_json)


def consume(
    *,
    topic: Annotated[str, typer.Option(help="The topic to read, from its beginning.")] = TOPIC_DEFAULT,
    records: Annotated[
        int | None,
        typer.Option("--records", "-n", min=1, show_default="all that are there", help="How many records."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Read a topic as fast as possible.

    [bold]Examples[/bold]

      ottla bench produce && ottla bench consume

      ottla bench consume --topic flights --records 100000 --json
    """
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    consumer = consumer_client(
        bootstrap, properties, {"auto.offset.reset": "error", "queued.max.messages.kbytes": 65_536}
    )
    try:
        with plain_errors(bootstrap, topic):
            assigned = [TopicPartition(topic, each) for each in range(partition_count(consumer, topic, bootstrap))]
            available = 0
            for partition in assigned:
                first, end = interruptible(partial(consumer.get_watermark_offsets, partition, REQUEST_TIMEOUT_S))
                partition.offset = first
                available += end - first
            wanted = available if records is None else records
            if wanted == 0 or wanted > available:
                raise OperationError(
                    f"topic {topic} holds {available:,} records; publish more with `ottla bench produce`"
                )
            consumer.assign(assigned)
            with progress_bar() as progress:
                shown = progress.add_task("reading", total=wanted)
                result = read_load(
                    consumer, records=wanted, advance=lambda done: progress.update(shown, completed=done)
                )
    finally:
        close(consumer)
    _show("consume", bootstrap, topic, result, as_json=as_json)


def latency(
    *,
    topic: Annotated[str, typer.Option(help="Created if it is not there.")] = LATENCY_TOPIC_DEFAULT,
    records: Records = 5_000,
    size: Size = 100,
    acks: Annotated[Acks, typer.Option(help="Wait for the leader, or all in-sync replicas.")] = Acks.ALL,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Publish one record at a time and read it back: time to acknowledgement, and end to end.

    [bold]Examples[/bold]

      ottla bench latency

      ottla bench latency --records 1000 --size 1024 --json
    """
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    if acks is Acks.ZERO:
        raise UsageProblem("--acks 0 has no acknowledgement to measure")
    _ensure_topic(topic, 1, bootstrap, properties)
    settings = {**producer_settings("none", acks.value, None), "linger.ms": 0}
    producer = producer_client(bootstrap, properties, settings)
    consumer = consumer_client(bootstrap, properties, {"auto.offset.reset": "error", "fetch.wait.max.ms": 500})
    try:
        with plain_errors(bootstrap, topic), progress_bar() as progress:
            partition = TopicPartition(topic, 0)
            partition.offset = interruptible(partial(consumer.get_watermark_offsets, partition, REQUEST_TIMEOUT_S))[1]
            consumer.assign([partition])
            shown = progress.add_task("one at a time", total=records)
            result = latency_load(
                producer,
                consumer,
                topic,
                records=records,
                size_bytes=size,
                advance=lambda done: progress.update(shown, completed=done),
            )
    finally:
        close(consumer)
    _show("latency", bootstrap, topic, result, as_json=as_json)


def _ensure_topic(topic: str, partitions: int, bootstrap: str, properties: Sequence[str] | None) -> None:
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import NewTopic  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    with plain_errors(bootstrap, topic):
        if topic in topics_of(client):
            return
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=-1)
        try:
            client.create_topics([wanted], operation_timeout=REQUEST_TIMEOUT_S)[topic].result()
        except KafkaException as exception:
            if exception.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _show(name: str, bootstrap: str, topic: str, result: LoadResult, *, as_json: bool) -> None:
    document: dict[str, Any] = {"benchmark": name, "bootstrap": bootstrap, "topic": topic}
    document.update(throughput(result.records, result.size_bytes, result.seconds))
    spreads = {
        "acknowledgement": spread_of(result.latencies_ms),
        "end to end": spread_of(result.end_to_end_ms),
    }
    for title, spread in spreads.items():
        if spread is not None:
            document[f"{title.replace(' ', '_')}_ms"] = spread.to_document()
    document["failed"] = result.failed
    document["errors"] = result.errors
    if as_json:
        print_json(document)
    else:
        print(
            f"{result.records:,} records, {human_bytes(result.size_bytes)} in {result.seconds:.2f} s: "
            f"{document['records_per_second']:,.0f} records/s, {document['megabytes_per_second']:,.1f} MB/s"
        )
        figures = {title: spread.to_document() for title, spread in spreads.items() if spread is not None}
        if figures:
            names = next(iter(figures.values()))
            print_table(
                ["milliseconds", *(f"{each}#" for each in names)],
                [(title, *(f"{value:.2f}" for value in row.values())) for title, row in figures.items()],
            )
    for error, count in result.errors.items():
        note(f"ottla: {count:,} records failed: {error}")
    if result.failed:
        raise typer.Exit(1)
