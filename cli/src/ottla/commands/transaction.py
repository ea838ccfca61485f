"""`ottla transaction`: list and describe transactions, find those that hang, and abort them."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from ottla.cluster.cluster_connection import cluster_admin
from ottla.confirmation import Yes, ask_at_terminal
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json
from ottla.output import note, print_json, print_table
from ottla_core.topic_partition import TopicPartition
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.groups.duration import BadDuration, parse_duration_ms

TIMEOUT_MAX = "15m"
"""What `transaction.max.timeout.ms` is unless it is set."""

IDS = Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL-ID", help="One or more transactional ids.")]


def list_(
    *,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only those in this state, such as Ongoing; repeatable."),
    ] = None,
    producer_ids: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only those of this producer id; repeatable.")
    ] = None,
    longer_than: Annotated[
        str | None, typer.Option("--longer-than", metavar="DURATION", help="Only transactions open for longer.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """List transactional ids with their producer id and state.

    [bold]Examples[/bold]

      ottla transaction list

      ottla transaction list --state Ongoing --longer-than 5m --json
    """
    from ottla_operations.transactions.transaction_admin import list_transactions  # noqa: PLC0415

    longer_than_ms = -1 if longer_than is None else _duration_ms(longer_than)
    with cluster_admin(bootstrap, properties) as admin:
        found = list_transactions(
            admin,
            admin.view(),
            states=states or (),
            producer_ids=producer_ids or (),
            longer_than_ms=longer_than_ms,
        )
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ["transactional id", "state", "producer id#", "coordinator#"],
            [tuple(map(str, row.values())) for row in rows],
        )


def describe(
    *,
    transactional_ids: IDS,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Show what coordinators know of transactional ids: state, producer, since when, and which partitions.

    [bold]Examples[/bold]

      ottla transaction describe billing-1
    """
    from ottla_operations.transactions.transaction_admin import describe_transactions  # noqa: PLC0415

    with cluster_admin(bootstrap, properties) as admin:
        views = describe_transactions(admin, admin.view(), list(dict.fromkeys(transactional_ids)))
    missing = [each for each in transactional_ids if each not in views]
    documents = [
        {
            "transactional_id": view.transactional_id,
            "coordinator": view.coordinator,
            "state": view.state,
            "producer_id": view.producer_id,
            "producer_epoch": view.producer_epoch,
            "timeout_ms": view.timeout_ms,
            "started": None if view.started_ms is None else _time(view.started_ms),
            "partitions": [f"{each.topic}-{each.partition}" for each in view.partitions],
        }
        for view in views.values()
    ]
    if as_json:
        print_json(documents)
    else:
        print_table(
            ["transactional id", "state", "producer id#", "epoch#", "timeout ms#", "started", "partitions"],
            [
                (
                    view.transactional_id, view.state, str(view.producer_id), str(view.producer_epoch),
                    str(view.timeout_ms), "" if view.started_ms is None else _time(view.started_ms),
                    ", ".join(f"{each.topic}-{each.partition}" for each in view.partitions),
                )
                for view in views.values()
            ],
        )  # fmt: skip
    if missing:
        raise OperationError(f"no coordinator knows {', '.join(missing)}")


def find_hanging(
    *,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", help="Look into this topic only; repeatable.")
    ] = None,
    timeout_max: Annotated[
        str,
        typer.Option(
            "--max-timeout", metavar="DURATION", help="How long a transaction may last: transaction.max.timeout.ms."
        ),
    ] = TIMEOUT_MAX,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Find transactions that stay open in partitions although no coordinator will end them.

    Who reads committed records does not get past them. The exit code is 1 if there are any.

    [bold]Examples[/bold]

      ottla transaction find-hanging

      ottla transaction find-hanging --topic flights --max-timeout 1h
    """
    from ottla_operations.transactions.transaction_admin import hanging_transactions  # noqa: PLC0415

    timeout_max_ms = _duration_ms(timeout_max)
    with cluster_admin(bootstrap, properties) as admin:
        view = admin.view()
        if absent := [each for each in topics or () if each not in view.topics]:
            raise OperationError(f"there is no topic {', '.join(absent)}")
        partitions = [each for each in view.partitions if not topics or each.topic in topics]
        found = hanging_transactions(admin, view, partitions, timeout_max_ms=timeout_max_ms)
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "start_offset": each.start_offset,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "last_written": _time(each.last_written_ms),
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ["topic", "partition#", "start offset#", "producer id#", "epoch#", "last written"],
            [tuple(map(str, row.values())) for row in rows],
        )
        note("`ottla transaction abort TOPIC PARTITION --start-offset N` ends one")
    else:
        note("no transaction hangs")
    if rows:
        raise typer.Exit(1)


def abort(
    *,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, help="The partition.")],
    start_offset: Annotated[
        int, typer.Option("--start-offset", min=0, help="The offset of the transaction's first record there.")
    ],
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Abort a transaction that hangs in a partition: who reads committed records never gets its records.

    Meant for what `find-hanging` shows. A transaction that its producer still goes on with must be left to it.

    [bold]Examples[/bold]

      ottla transaction abort flights 3 --start-offset 1200
    """
    from ottla_operations.transactions.transaction_admin import end_transaction, open_transactions  # noqa: PLC0415

    name = TopicPartition(topic, partition)
    with cluster_admin(bootstrap, properties) as admin:
        view = admin.view()
        if name not in view.partitions:
            raise OperationError(f"there is no partition {topic}-{partition}")
        found = [each for each in open_transactions(admin, view, [name]) if each.start_offset == start_offset]
        if not found:
            raise OperationError(
                f"no transaction is open in {topic}-{partition} that begins at offset {start_offset}"
            )
        (one,) = found
        ask_at_terminal(
            f"Abort the transaction of producer {one.producer_id} in {topic}-{partition}, last written to at"
            f" {_time(one.last_written_ms)}?",
            yes=yes,
        )
        end_transaction(admin, view, one)
    if as_json:
        done = {"topic": topic, "partition": partition, "start_offset": start_offset}
        print_json({"aborted": {**done, "producer_id": one.producer_id}})
    else:
        print(f"aborted the transaction of producer {one.producer_id} in {topic}-{partition}")


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except BadDuration as error:
        raise UsageProblem(str(error)) from None


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
