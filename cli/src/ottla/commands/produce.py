"""`ottla produce`: publish the lines of standard input or of files.

Every line is accounted for: published, or reported with its number and reason. Lines are read no faster than
librdkafka's bounded queue drains, so input of any size needs little memory.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from ottla import completion
from ottla.commands.record_formats import Formats, KeyFormat, RegistryProperties, SchemaRegistry, ValueFormat
from ottla.kafka_client import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    ClientProperties,
    Json,
    admin_client,
    client_config,
    partition_count,
    producer_client,
)
from ottla.lazy_commands import is_text
from ottla.output import note, print_json, progress_bar
from ottla.records.publication import UNSET_PARTITION, Publication
from ottla.records.stalled_publishing import StalledPublishing, why_nothing_is_acknowledged
from ottla.waiting_notice import told_when_slow
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, describe_error, plain_errors
from ottla_operations.quantities import counted
from ottla_operations.records.record_line import BadLine, Format, LineOptions, record_reader

if TYPE_CHECKING:
    from confluent_kafka import Producer

EXIT_INTERRUPTED = 130
CREATION_WAIT_S = 3.0
DELIVERY_TIMEOUT_MS = 60_000
QUEUE_BYTES_MAX_KIB = 65_536
PROGRESS_EVERY = 1_000
NO_EXCEPTION_SET = "without setting an exception"
"""What Python says of a call of confluent-kafka in whose callback Ctrl-C came; the interrupt itself is lost there."""


class Compression(StrEnum):
    """Codecs of the Kafka protocol."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """What a publish waits for."""

    ZERO = "0"
    ONE = "1"
    ALL = "all"


TopicName = Annotated[str, typer.Argument(autocompletion=completion.topics, help="The topic to publish to.")]
Files = Annotated[list[Path] | None, typer.Argument(help="Files to read instead of standard input.")]
FormatChoice = Annotated[
    Format,
    typer.Option("--format", "-f", help="lines: a value each; json: a document each; record: all of a record."),
]
KeySeparator = Annotated[
    str | None, typer.Option("--key-separator", "-K", help="In lines: what stands between key and value.")
]
KeyField = Annotated[str | None, typer.Option(help="In json: the field whose value is the key.")]
NullText = Annotated[str | None, typer.Option("--null", help="In lines: this text means null.")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for each; repeatable.")
]
PartitionChoice = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, show_default="by the key", help="Only this partition.")
]
CompressionChoice = Annotated[Compression, typer.Option("--compression", "-z", help="Codec.")]
AcksChoice = Annotated[Acks, typer.Option(help="Wait for none, the leader, or all in-sync replicas.")]
Idempotence = Annotated[
    bool | None,
    typer.Option("--idempotence/--no-idempotence", show_default="on with acks all", help="Retry without doubles."),
]
Create = Annotated[bool, typer.Option("--create", help="Create the topic if it is not there.")]


def produce(
    *,
    topic: TopicName,
    files: Files = None,
    format_: FormatChoice = Format.LINES,
    key_separator: KeySeparator = None,
    key_field: KeyField = None,
    null_text: NullText = None,
    key_format: KeyFormat = None,
    value_format: ValueFormat = None,
    headers: Headers = None,
    partition: PartitionChoice = None,
    compression: CompressionChoice = Compression.NONE,
    acks: AcksChoice = Acks.ALL,
    idempotence: Idempotence = None,
    create: Create = False,
    schema_registry: SchemaRegistry = None,
    registry_properties: RegistryProperties = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Publish lines. Exits with 1 if any line was not published, and says which and why.

    [bold]Examples[/bold]

      echo hello | ottla produce greetings

      ottla produce prices --key-separator : prices.txt          lines such as EUR:1.07

      ottla produce flights -f json --key-field carrier flights.jsonl

      ottla consume flights -f record | ottla produce copy -f record

      ottla produce counts -K : --key-format int64 --create      lines such as 17:four

      ottla produce orders -f json --schema-registry 127.0.0.1:8081 --value-format avro orders.jsonl

    With a schema registry, what is published has the newest schema of <topic>-key and <topic>-value.
    """
    line_options = _line_options(format_, key_separator, key_field, null_text)
    formats = Formats(key_format, value_format, schema_registry, registry_properties)
    fixed_headers = _fixed_headers(headers or ())
    settings = producer_settings(compression.value, acks.value, idempotence)
    line_options = replace(
        line_options,
        key_codec=formats.for_publishing("key", topic),
        value_codec=formats.for_publishing("value", topic),
    )
    _see_to_topic(topic, bootstrap, properties, create=create)
    producer = producer_client(bootstrap, properties, settings)
    chosen_partition = _chosen_partition(producer, topic, partition, bootstrap)
    stalled = StalledPublishing(
        lambda: why_nothing_is_acknowledged(topic, bootstrap, client_config(bootstrap, properties))
    )
    publication = Publication(producer, topic, chosen_partition, fixed_headers, stalled)
    problem = _publish_files(publication, files or [], line_options)
    _report(publication, as_json=as_json)
    if problem is not None:
        raise problem
    if publication.is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if publication.failed:
        raise typer.Exit(1)


def producer_settings(compression: str, acks: str, idempotence: bool | None) -> dict[str, Any]:
    """Return librdkafka's settings; keys go to the partitions that Kafka's own client would choose.

    Raises:
        UsageProblem: idempotence was asked for with acks that do not allow it.
    """
    if idempotence and acks != Acks.ALL:
        raise UsageProblem("--idempotence needs --acks all")
    return {
        "compression.type": compression,
        "acks": acks,
        "enable.idempotence": acks == Acks.ALL if idempotence is None else idempotence,
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        "message.max.bytes": 100_000_000,  # the topic's own limit decides, not the client's
        "queue.buffering.max.kbytes": QUEUE_BYTES_MAX_KIB,
    }


def _see_to_topic(topic: str, bootstrap: str, properties: Sequence[str] | None, *, create: bool) -> None:
    """See that a topic is there, and create it if that is wanted; a producer's first question could do so unasked.

    Raises:
        OperationError: there is no such topic, and it is not to be created, or cannot be.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection  # noqa: PLC0415
    from confluent_kafka.admin import NewTopic  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    with plain_errors(bootstrap):
        described = client.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)[topic]
        if not _is_missing(described):
            return
        if not create:
            _ask_for_creation(topic)
        created = client.create_topics([NewTopic(topic, -1, -1)], request_timeout=REQUEST_TIMEOUT_S)[topic]
    try:
        with told_when_slow(bootstrap, REQUEST_TIMEOUT_S):
            created.result()
    except KafkaException as exception:
        reason = exception.args[0]
        if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise OperationError(f"topic {topic} was not created: {describe_error(reason, bootstrap)}") from None
    else:
        note(f"created {topic}")


def _is_missing(described: Any) -> bool:
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    try:
        described.result()
    except KafkaException as exception:
        if exception.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return True
        raise
    return False


def _ask_for_creation(topic: str) -> None:
    is_person = sys.stdin.isatty() and sys.stderr.isatty()
    if not is_person or not typer.confirm(f"There is no topic {topic}. Create it?", err=True):
        raise OperationError(
            f"there is no topic {topic}; create it with `ottla topic create {topic}`, or add --create"
        )


def _line_options(
    format_: Format, key_separator: str | None, key_field: str | None, null_text: str | None
) -> LineOptions:
    if format_ is not Format.LINES and (key_separator is not None or null_text is not None):
        raise UsageProblem("--key-separator and --null are for --format lines")
    if format_ is not Format.JSON and key_field is not None:
        raise UsageProblem("--key-field is for --format json")
    if key_separator == "":
        raise UsageProblem("--key-separator must not be empty")
    separator = None if key_separator is None else os.fsencode(key_separator)
    return LineOptions(format_, separator, key_field, None if null_text is None else os.fsencode(null_text))


def _fixed_headers(headers: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return names and values as they were typed, with the spaces of values; a name may stand there more than once.

    Raises:
        UsageProblem: one has no name or no equals sign.
    """
    pairs = [header.partition("=") for header in headers]
    for name, equals, value in pairs:
        if not equals or not name.strip():
            raise UsageProblem(f"--header {name}{equals}{value}: write it as NAME=VALUE")
        if not is_text(name):
            raise UsageProblem("--header has a name with bytes that are no text")
    return [(name.strip(), os.fsencode(value)) for name, _, value in pairs]


def _chosen_partition(producer: "Producer", topic: str, partition: int | None, bootstrap: str) -> int:
    """Return the partition that was chosen, or `UNSET_PARTITION`.

    Raises:
        OperationError: the topic has no such partition, or is not there in time.
    """
    count = partition_count(producer, topic, bootstrap, creation_wait_s=CREATION_WAIT_S)
    if partition is not None and partition >= count:
        raise OperationError(f"topic {topic} has no partition {partition}; its partitions are 0 to {count - 1}")
    return UNSET_PARTITION if partition is None else partition


def _publish_files(publication: Publication, files: Sequence[Path], options: LineOptions) -> OperationError | None:
    """Publish all lines and wait for their fates; return what ended the input early, as the lines before it count."""
    problem: OperationError | None = None
    try:
        try:
            with ExitStack() as opened:
                _publish_all(publication, _input_lines(files, opened), options)
        except OperationError as error:  # the lines before it are under way
            problem = error
        publication.finish()
    except KeyboardInterrupt:
        publication.finish_interrupted()
    except SystemError as error:
        if NO_EXCEPTION_SET not in str(error):
            raise
        publication.finish_interrupted()
    return problem


def _input_lines(files: Sequence[Path], opened: ExitStack) -> Iterator[bytes]:
    if not files:
        yield from _lines_of(sys.stdin.buffer, "standard input")
    for file in files:
        try:
            stream: BinaryIO = opened.enter_context(file.open("rb"))
        except OSError as error:
            raise OperationError(f"cannot read {file}: {error.strerror}") from None
        yield from _lines_of(stream, str(file))


def _lines_of(stream: Iterable[bytes], name: str) -> Iterator[bytes]:
    try:
        for line in stream:
            yield line.removesuffix(b"\n").removesuffix(b"\r")
    except OSError as error:
        raise OperationError(f"cannot read {name}: {error.strerror}") from None


def _publish_all(publication: Publication, lines: Iterable[bytes], options: LineOptions) -> None:
    read_record = record_reader(options)
    is_json = options.format is not Format.LINES
    with progress_bar() as progress:
        shown = progress.add_task("publishing", total=None, visible=not sys.stdin.isatty())
        for number, line in enumerate(lines, start=1):
            if is_json and not line.strip():
                continue
            publication.read += 1
            try:
                record = read_record(line)
            except BadLine as problem:
                publication.fail(number, str(problem))
                continue
            publication.publish(record, number)
            if number % PROGRESS_EVERY == 0:
                progress.update(shown, description=f"publishing, {publication.delivered.total():,} done")


def _report(publication: Publication, *, as_json: bool) -> None:
    delivered = publication.delivered.total()
    for reason, numbers in publication.failed.items():
        note(f"ottla: not published, line {numbers}: {reason}")
    if publication.unconfirmed:
        note(
            f"ottla: interrupted with {counted(publication.unconfirmed, 'record')} unconfirmed, "
            "which may or may not be published"
        )
    if as_json:
        print_json(
            {
                "topic": publication.topic,
                "read": publication.read,
                "published": delivered,
                "failed": publication.failed_count,
                "unconfirmed": publication.unconfirmed,
                "partitions": {str(number): count for number, count in sorted(publication.delivered.items())},
                "errors": [
                    {"reason": reason, "lines": str(numbers)} for reason, numbers in publication.failed.items()
                ],
            }
        )
    else:
        failed = f", {publication.failed_count:,} failed" if publication.failed_count else ""
        note(f"published {counted(delivered, 'record')} to {publication.topic}{failed}")
