"""`ottla consume`: read the partitions of a topic from a chosen place, or topics as a member of a group.

Without `--follow` it reads what is there and ends; with it, it goes on until Ctrl-C or `--count`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.errors import CommandError, UsageProblem
from ottla.groups.reading import GroupReading, Membership
from ottla.kafka_client import (
    BOOTSTRAP_DEFAULT,
    REQUEST_TIMEOUT_S,
    Bootstrap,
    ClientProperties,
    close,
    consumer_client,
    describe_error,
    group_consumer_client,
    partition_count,
    plain_errors,
)
from ottla.output import write_result
from ottla.records.record_line import Format, LineOptions, Record, record_writer
from ottla.records.start_offset import Anchor, BadOffset, StartOffset, parse_start_offset

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH_RECORDS_MAX = 1_000
POLL_S = 0.05
COMMIT_INTERVAL_DEFAULT_S = 5.0

PrintRecords = Callable[[list["Message"]], None]


class GroupProtocol(StrEnum):
    """How members agree on who reads what."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Source:
    """What to read, and where from."""

    bootstrap: str
    properties: Sequence[str] | None
    topics: Sequence[str]
    partitions: Sequence[int] | None
    start: StartOffset
    follow: bool


Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC…", help="The topic to read; in a group several, or ^PATTERN.")
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, show_default="all", help="Repeatable.")
]
Offset = Annotated[
    str,
    typer.Option(
        "--offset",
        "-o",
        help="earliest, latest, a number, -N (the last N of each partition), @MILLISECONDS, or a date and time.",
    ),
]
Count = Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")]
Follow = Annotated[bool, typer.Option("--follow", help="Wait for new records; Ctrl-C ends.")]
GroupName = Annotated[
    str | None, typer.Option("--group", "-g", help="Share the partitions with this group, and commit.")
]
ProtocolChoice = Annotated[
    GroupProtocol | None, typer.Option(show_default="classic", help="With --group: its protocol.")
]
InstanceId = Annotated[
    str | None, typer.Option(help="With --group: be a static member that keeps its partitions over a restart.")
]
CommitInterval = Annotated[
    float | None, typer.Option(min=0, metavar="SECONDS", show_default="5", help="With --group: time between commits.")
]
FormatChoice = Annotated[
    Format, typer.Option("--format", "-f", help="lines or json: the value; record: all of a record as JSON.")
]
KeySeparator = Annotated[
    str | None, typer.Option("--key-separator", "-K", help="In lines: write the key and this before the value.")
]
NullText = Annotated[str | None, typer.Option("--null", help="In lines: write this for null.")]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format record.")]


def register(app: typer.Typer) -> None:
    """Add the command to the top level."""
    app.command("consume")(consume)


def consume(
    *,
    topics: Topics,
    partitions: Partitions = None,
    offset: Offset = "earliest",
    count: Count = None,
    follow: Follow = False,
    group: GroupName = None,
    group_protocol: ProtocolChoice = None,
    instance_id: InstanceId = None,
    commit_interval: CommitInterval = None,
    format_: FormatChoice = Format.LINES,
    key_separator: KeySeparator = None,
    null_text: NullText = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    """Read records.

    [bold]Examples[/bold]

      ottla consume flights --count 3

      ottla consume flights --partition 0 --offset 1000 --format record

      ottla consume flights --offset 2013-07-01T00:00 --follow

      ottla consume prices --key-separator : --offset -10

      ottla consume flights prices --group billing --follow

    In a group, reading begins at its committed offsets, and --offset (earliest or latest) counts only where there are
    none. Offsets are committed after their records were written, so none is lost. Ctrl-C leaves the group.
    """  # fmt: skip
    chosen = Format.RECORD if as_json else format_
    if chosen is not Format.LINES and (key_separator is not None or null_text is not None):
        raise UsageProblem("--key-separator and --null are for --format lines")
    source = Source(bootstrap, properties, topics, partitions, _start(offset, follow=follow), follow)
    print_records = _print_records(
        record_writer(LineOptions(chosen, _encoded(key_separator), None, _encoded(null_text)))
    )
    if group is not None:
        membership = Membership(
            group=group,
            protocol=group_protocol or GroupProtocol.CLASSIC,
            instance_id=instance_id,
            commit_interval_s=COMMIT_INTERVAL_DEFAULT_S if commit_interval is None else commit_interval,
            reset=_reset(source.start, partitions),
            follow=follow,
        )
        _consume_in_group(source, membership, print_records, count=count)
    elif group_protocol is not None or instance_id is not None or commit_interval is not None:
        raise UsageProblem("--group-protocol, --instance-id and --commit-interval are for --group")
    elif len(topics) > 1:
        raise UsageProblem("several topics can be read with --group only")
    else:
        _consume_partitions(source, print_records, count=count)


def _consume_partitions(source: Source, print_records: PrintRecords, *, count: int | None) -> None:
    bootstrap, topic = source.bootstrap, source.topics[0]
    with (
        _partition_consumer(bootstrap, source.properties, follow=source.follow) as consumer,
        plain_errors(bootstrap, topic),
    ):
        chosen_partitions = _chosen_partitions(consumer, topic, source.partitions, bootstrap)
        reading = Reading(consumer, topic, chosen_partitions, source.start)
        reading.run(print_records, count=count, follow=source.follow, bootstrap=bootstrap)


def _consume_in_group(
    source: Source, membership: Membership, print_records: PrintRecords, *, count: int | None
) -> None:
    consumer = group_consumer_client(source.bootstrap, source.properties, membership.settings())
    with _group_reading(consumer, membership, source.topics, source.bootstrap) as reading:
        reading.run(print_records, count=count)


def _start(offset: str, *, follow: bool) -> StartOffset:
    try:
        start = parse_start_offset(offset)
    except BadOffset as error:
        raise UsageProblem(f"--offset: {error}") from None
    if start.anchor is Anchor.LATEST and not follow:
        raise UsageProblem("--offset latest shows only what is still to come; add --follow")
    return start


def _reset(start: StartOffset, partitions: Sequence[int] | None) -> str:
    if partitions:
        raise UsageProblem("--partition cannot be used with --group; the group shares the partitions out")
    if start.anchor is Anchor.EARLIEST:
        return "earliest"
    if start.anchor is Anchor.LATEST:
        return "latest"
    raise UsageProblem("with --group, --offset is earliest or latest; `ottla group reset-offsets` sets any other")


@contextmanager
def _partition_consumer(bootstrap: str, properties: Sequence[str] | None, *, follow: bool) -> Iterator["Consumer"]:
    """Yield a consumer for partitions that are assigned to it; Ctrl-C is the way to end one that follows."""
    consumer = consumer_client(
        bootstrap, properties, {"enable.partition.eof": not follow, "auto.offset.reset": "error"}
    )
    try:
        yield consumer
    except KeyboardInterrupt:
        if not follow:
            raise
    finally:
        close(consumer)


@contextmanager
def _group_reading(
    consumer: "Consumer", membership: Membership, topics: Sequence[str], bootstrap: str
) -> Iterator[GroupReading]:
    """Yield a member of the group, which leaves it in the end, however that comes."""
    try:
        for topic in topics:
            if not topic.startswith("^"):
                partition_count(consumer, topic, bootstrap)
    except BaseException:
        close(consumer)
        raise
    with plain_errors(bootstrap, f"group {membership.group}"):
        reading = GroupReading(consumer, membership, topics, bootstrap)
        try:
            yield reading
        finally:
            reading.leave()


class Reading:
    """Partitions being read, each up to where it ended at the start.

    Raises:
        KafkaException: the cluster does not tell the offsets.
    """

    def __init__(self, consumer: "Consumer", topic: str, partitions: Sequence[int], start: StartOffset) -> None:
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        self._consumer = consumer
        self._ends = {}
        assigned = []
        by_time = _offsets_at(consumer, topic, partitions, start) if start.anchor is Anchor.TIME_MS else {}
        for partition in partitions:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), REQUEST_TIMEOUT_S)
            begin = by_time[partition] if by_time else first_offset(start, first, end, partition)
            assigned.append(TopicPartition(topic, partition, end if begin < 0 else begin))
            if begin < end and begin >= 0:
                self._ends[partition] = end
        consumer.assign(assigned)

    def run(self, print_records: PrintRecords, *, count: int | None, follow: bool, bootstrap: str) -> None:
        """Read until `count`, the ends (unless `follow`), or an interrupt.

        Raises:
            CommandError: a partition cannot be read.
        """
        remaining = count
        while (follow or self._ends) and remaining != 0:
            wanted = BATCH_RECORDS_MAX if remaining is None else min(remaining, BATCH_RECORDS_MAX)
            messages = self._consumer.consume(wanted, POLL_S)
            records = [message for message in messages if self._take(message, bootstrap, follow=follow)]
            if records:
                print_records(records)
            if remaining is not None:
                remaining -= len(records)

    def _take(self, message: "Message", bootstrap: str, *, follow: bool) -> bool:
        """Tell whether a message is a record to print, and note where its partition is."""
        from confluent_kafka import KafkaError  # noqa: PLC0415

        partition = _number(message.partition())
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public name
                self._ends.pop(partition, None)
                return False
            if error.retriable() and not error.fatal():
                return False
            raise CommandError(describe_error(error, bootstrap, f"{message.topic()} partition {partition}"))
        if follow:
            return True
        end = self._ends.get(partition)
        if end is None:
            return False
        offset = _number(message.offset())
        if offset + 1 >= end:
            del self._ends[partition]
        return offset < end


def first_offset(start: StartOffset, first: int, end: int, partition: int) -> int:
    """Return the offset a partition is read from, given the first there is and the one after the last.

    Raises:
        CommandError: the partition does not have the offset asked for.
    """
    match start.anchor:
        case Anchor.EARLIEST:
            return first
        case Anchor.LATEST:
            return end
        case Anchor.BEFORE_END:
            return max(first, end - start.number)
        case Anchor.OFFSET if not first <= start.number <= end:
            raise CommandError(
                f"partition {partition} has no offset {start.number}; it holds {describe_range(first, end)}"
            )
        case _:
            return start.number


def describe_range(first: int, end: int) -> str:
    """Return in words which offsets a partition holds."""
    return f"{first} to {end - 1}" if end > first else f"no records; its next offset is {end}"


def _offsets_at(consumer: "Consumer", topic: str, partitions: Sequence[int], start: StartOffset) -> dict[int, int]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    wanted = [TopicPartition(topic, partition, start.number) for partition in partitions]
    found = consumer.offsets_for_times(wanted, REQUEST_TIMEOUT_S)
    return {each.partition: each.offset for each in found}


def _chosen_partitions(consumer: "Consumer", topic: str, chosen: Sequence[int] | None, bootstrap: str) -> list[int]:
    count = partition_count(consumer, topic, bootstrap)
    for partition in chosen or ():
        if partition >= count:
            raise CommandError(f"topic {topic} has no partition {partition}; its partitions are 0 to {count - 1}")
    return sorted(set(chosen)) if chosen else list(range(count))


def _print_records(writer: Callable[[Record], bytes]) -> PrintRecords:
    def print_records(messages: list["Message"]) -> None:
        write_result(b"".join(writer(to_record(message)) for message in messages))

    return print_records


def to_record(message: "Message") -> Record:
    """Return what a message holds."""
    kind, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    key: Any = message.key()
    value: Any = message.value()
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp=timestamp if kind else None,
        key=key,
        value=value,
        headers=tuple(headers),
    )


def _number(value: int | None) -> int:
    assert value is not None
    return value


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
