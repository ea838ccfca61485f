"""`ottla topic`: create, list, describe, alter and delete topics."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla import completion
from ottla.commands.movement_options import PARALLEL_DEFAULT, Parallel, Throttle
from ottla.concurrent_actions import finish_each
from ottla.confirmation import Yes, ask_at_terminal
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json, admin_client, parse_assignments
from ottla.output import print_json, print_table
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S, plain_errors, topics_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, TopicMetadata

REPLICATION_FACTOR_MAX = 100
"""More would be a typing error, and a request of its own size for every partition."""

TopicNames = Annotated[
    list[str], typer.Argument(metavar="TOPIC", autocompletion=completion.topics, help="One or more topics.")
]


def create(
    *,
    topics: TopicNames,
    partitions: Annotated[int | None, typer.Option(min=1, show_default="the broker's", help="Partitions.")] = None,
    replication_factor: Annotated[
        int | None, typer.Option(min=1, show_default="the broker's", help="Replicas of each partition.")
    ] = None,
    assignment: Annotated[
        str | None,
        typer.Option(metavar="1:2,2:1", help="Broker ids per partition instead: ':' between replicas, ',' between."),
    ] = None,
    configs: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="Topic setting; repeatable.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option(help="Do nothing for a topic that is there.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Create topics.

    [bold]Examples[/bold]

      ottla topic create flights --partitions 6

      ottla topic create prices --config cleanup.policy=compact --config retention.ms=-1

      ottla topic create placed --assignment 1:2,2:3,3:1
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415
    from confluent_kafka.admin import NewTopic  # noqa: PLC0415

    if assignment is not None and (partitions is not None or replication_factor is not None):
        raise UsageProblem("--assignment already says how many partitions and replicas there are")
    layout: dict[str, Any] = {"num_partitions": partitions or -1, "replication_factor": replication_factor or -1}
    if assignment is not None:
        replicas = parse_replica_assignment(assignment)
        layout = {"num_partitions": len(replicas), "replica_assignment": replicas}
    config = parse_assignments(configs or (), "--config")
    client = admin_client(bootstrap, properties)
    wanted = [NewTopic(name, config=config, **layout) for name in topics]
    tolerated = frozenset({KafkaError.TOPIC_ALREADY_EXISTS} if if_not_exists else ())
    with plain_errors(bootstrap):
        futures = client.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_S)
    finish_each("topic", "created", futures, bootstrap, as_json=as_json, tolerated=tolerated)


def list_(
    *,
    internal: Annotated[bool, typer.Option(help="Also topics whose name begins with two underscores.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """List the topics with their partitions and replicas.

    [bold]Examples[/bold]

      ottla topic list

      ottla topic list --internal --json
    """
    client = admin_client(bootstrap, properties)
    with plain_errors(bootstrap):
        found = topics_of(client)
    rows = [
        {"topic": name, "partitions": len(topic.partitions), "replication_factor": _replication_factor(topic)}
        for name, topic in sorted(found.items())
        if internal or not name.startswith("__")
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(["topic", "partitions#", "replicas#"], [tuple(row.values()) for row in rows])


def describe(
    *,
    topics: TopicNames,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Show each partition's leader, replicas, in-sync replicas and offsets.

    [bold]Examples[/bold]

      ottla topic describe flights

      ottla topic describe flights prices --json
    """
    client = admin_client(bootstrap, properties)
    with plain_errors(bootstrap):
        found = topics_of(client)
    missing = [name for name in topics if name not in found]
    if missing:
        raise OperationError(f"there is no topic {', '.join(missing)}")
    documents: list[dict[str, Any]] = [
        {"topic": name, "partitions": _partitions(client, name, found[name], bootstrap)} for name in topics
    ]
    if as_json:
        print_json(documents)
        return
    for document in documents:
        print_table(
            ["partition#", "leader#", "replicas", "in sync", "first offset#", "next offset#", "records at most#"],
            [
                (
                    each["partition"], each["leader"], _join(each["replicas"]), _join(each["in_sync_replicas"]),
                    each["first_offset"], each["next_offset"], each["next_offset"] - each["first_offset"],
                )
                for each in document["partitions"]
            ],
            title=str(document["topic"]),
        )  # fmt: skip


def alter(
    *,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC", autocompletion=completion.topics, show_default=False, help="One or more topics."
        ),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option(min=1, help="The new number of partitions; it can only grow.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(min=1, max=REPLICATION_FACTOR_MAX, help="The new number of replicas of each partition."),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All topics, internal ones, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved, and move nothing.")] = False,
    throttle: Throttle = None,
    parallel: Parallel = PARALLEL_DEFAULT,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Give topics more partitions, or more or fewer replicas. `ottla config set topic` changes their settings.

    With more partitions, records with keys go to other ones from then on; those already there stay. Replicas are
    planned over brokers and racks, shown, and copied after you agree; Ctrl-C is as in `ottla cluster rebalance`.

    [bold]Examples[/bold]

      ottla topic alter flights --partitions 12

      ottla topic alter flights prices --replication-factor 3 --dry-run

      ottla topic alter --all-topics --replication-factor 3 --yes --throttle 50000000
    """
    if (partitions is None) is (replication_factor is None):
        raise UsageProblem("give either --partitions or --replication-factor")
    if bool(topics) is all_topics:
        raise UsageProblem("name topics, or give --all-topics")
    if replication_factor is not None:
        from ottla.commands.topic_replication import alter_replication_factor  # noqa: PLC0415

        alter_replication_factor(
            topics,
            replication_factor,
            dry_run=dry_run,
            throttle=throttle,
            parallel=parallel,
            yes=yes,
            bootstrap=bootstrap,
            properties=properties,
            as_json=as_json,
        )
        return
    if all_topics or dry_run or throttle is not None:
        raise UsageProblem("--all-topics, --dry-run and --throttle are for --replication-factor")
    _alter_partitions(topics or [], partitions or 1, bootstrap, properties, as_json=as_json)


def _alter_partitions(
    topics: Sequence[str], partitions: int, bootstrap: str, properties: Sequence[str] | None, *, as_json: bool
) -> None:
    from confluent_kafka.admin import NewPartitions  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    wanted = [NewPartitions(name, partitions) for name in topics]
    with plain_errors(bootstrap):
        futures = client.create_partitions(wanted, request_timeout=REQUEST_TIMEOUT_S)
    finish_each("topic", "altered", futures, bootstrap, as_json=as_json)


def delete(
    *,
    topics: TopicNames,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Delete topics and all their records. Asks first when typed at a terminal.

    [bold]Examples[/bold]

      ottla topic delete flights

      ottla topic delete flights prices --yes
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415

    client = admin_client(bootstrap, properties)
    ask_at_terminal(f"Delete {', '.join(topics)} and all their records at {bootstrap}?", yes=yes)
    with plain_errors(bootstrap):
        futures = client.delete_topics(topics, request_timeout=REQUEST_TIMEOUT_S, operation_timeout=REQUEST_TIMEOUT_S)
    missing = {KafkaError.UNKNOWN_TOPIC_OR_PART: "there is no such topic"}
    finish_each(
        "topic", "deleted", futures, bootstrap, as_json=as_json, in_words=lambda error: missing.get(error.code())
    )


def parse_replica_assignment(text: str) -> list[list[int]]:
    """Read ``1:2,2:1``: for each partition the broker ids of its replicas, the preferred leader first.

    Raises:
        UsageProblem: something in it is no number.
    """
    try:
        return [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise UsageProblem(f"--assignment {text}: write broker ids as in 1:2,2:1") from None


def _partitions(client: "AdminClient", name: str, topic: "TopicMetadata", bootstrap: str) -> list[dict[str, Any]]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415
    from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

    def offsets(spec: Any) -> dict[int, int]:
        wanted = {TopicPartition(name, number): spec for number in topic.partitions}
        futures = client.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
        return {partition.partition: future.result().offset for partition, future in futures.items()}

    with plain_errors(bootstrap, name):
        first, following = offsets(OffsetSpec.earliest()), offsets(OffsetSpec.latest())  # type: ignore[no-untyped-call] # the library's
    return [
        {
            "partition": number,
            "leader": partition.leader,
            "replicas": list(partition.replicas),
            "in_sync_replicas": list(partition.isrs),
            "first_offset": first[number],
            "next_offset": following[number],
        }
        for number, partition in sorted(topic.partitions.items())
    ]


def _replication_factor(topic: "TopicMetadata") -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _join(numbers: Sequence[int]) -> str:
    return ",".join(str(number) for number in numbers)
