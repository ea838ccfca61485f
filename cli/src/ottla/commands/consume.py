"""`ottla consume`: read the partitions of a topic from a chosen place, or topics as a member of a group.

Without `--follow` it reads what is there and ends; with it, it goes on until Ctrl-C or `--count`.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ottla import completion
from ottla.commands.record_formats import Formats, KeyFormat, RegistryProperties, SchemaRegistry, ValueFormat
from ottla.groups.group_consumer import GroupConsumer, Membership
from ottla.kafka_client import (
    BOOTSTRAP_DEFAULT,
    Bootstrap,
    ClientProperties,
    close,
    consumer_client,
    group_consumer_client,
    partition_count,
)
from ottla.records.partition_reading import PrintRecords, Reading, chosen_partitions
from ottla.records.record_printer import Layout, RecordPrinter
from ottla_operations.errors import UsageProblem
from ottla_operations.kafka_access import plain_errors
from ottla_operations.records.received_record import to_record
from ottla_operations.records.record_filter import expression_filter, text_filter
from ottla_operations.records.record_line import Format, LineOptions, record_writer
from ottla_operations.records.record_template import BadTemplate, is_template, template_writer
from ottla_operations.records.start_offset import Anchor, BadOffset, StartOffset, parse_start_offset

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

COMMIT_INTERVAL_DEFAULT_S = 5.0


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
    list[str],
    typer.Argument(
        metavar="TOPIC…", autocompletion=completion.topics, help="The topic to read; in a group several, or ^PATTERN."
    ),
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
Count = Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records are shown.")]
Follow = Annotated[bool, typer.Option("--follow", help="Wait for new records; Ctrl-C ends.")]
GroupName = Annotated[
    str | None,
    typer.Option(
        "--group", "-g", autocompletion=completion.groups, help="Share the partitions with this group, and commit."
    ),
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
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="lines|json|record|TEMPLATE",
        help="lines or json: the value; record: all of it as JSON; or kcat's letters, such as '%t %p %o %k %s\\n'.",
    ),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="JQ",
        help="Only records for which this expression of jq is true; repeatable, all must be.",
    ),
]
Grep = Annotated[
    list[str] | None,
    typer.Option(
        "--grep", metavar="TEXT", help="Only records whose key, value or headers hold this text; repeatable."
    ),
]
KeySeparator = Annotated[
    str | None, typer.Option("--key-separator", "-K", help="In lines: write the key and this before the value.")
]
NullText = Annotated[str | None, typer.Option("--null", help="In lines: write this for null.")]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format record.")]


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
    format_: FormatChoice = Format.LINES.value,
    key_format: KeyFormat = None,
    value_format: ValueFormat = None,
    key_separator: KeySeparator = None,
    null_text: NullText = None,
    filters: Filter = None,
    greps: Grep = None,
    schema_registry: SchemaRegistry = None,
    registry_properties: RegistryProperties = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: AsJson = False,
) -> None:
    r"""Read records.

    [bold]Examples[/bold]

      ottla consume flights --count 3

      ottla consume flights --partition 0 --offset 1000 --format record

      ottla consume flights --offset 2013-07-01T00:00 --follow

      ottla consume prices --key-separator : --offset -10

      ottla consume flights prices --group billing --follow

      ottla consume flights -f '%t [%p] at %o: %k = %s\n' --key-format int64

      ottla consume flights --filter '.value.carrier == "AA" and .value.dep_delay > 60' --count 5

      ottla consume orders --schema-registry 127.0.0.1:8081 --value-format avro

    In a group, reading begins at its committed offsets, and --offset (earliest or latest) counts only where there are
    none. Offsets are committed after their records were written, so none is lost. Ctrl-C leaves the group. Exits
    with 1 if the last offsets were not committed.

    Bytes that are no text are shown as \x00\xff; base64, hex or raw show them otherwise. What has a schema is shown
    as JSON. Expressions see .key, .value, .headers, .topic, .partition, .offset and .timestamp.
    """  # fmt: skip
    formats = Formats(key_format, value_format, schema_registry, registry_properties)
    layout, options = _layout(Format.RECORD.value if as_json else format_, key_separator, null_text, formats)
    matches = [text_filter(text) for text in greps or ()]
    matches += [expression_filter(expression, options) for expression in filters or ()]
    printer = RecordPrinter(layout, matches)
    source = Source(bootstrap, properties, topics, partitions, _start(offset, follow=follow), follow)
    print_records = _print_records(printer)
    membership = _membership(group, group_protocol, instance_id, commit_interval, source)
    is_committed = True
    if membership is not None:
        is_committed = _consume_in_group(source, membership, print_records, count=count)
    elif len(topics) > 1:
        raise UsageProblem("several topics can be read with --group only")
    else:
        _consume_partitions(source, print_records, count=count)
    printer.tell()
    if printer.undecoded or not is_committed:
        raise typer.Exit(1)


def _consume_partitions(source: Source, print_records: PrintRecords, *, count: int | None) -> None:
    bootstrap, topic = source.bootstrap, source.topics[0]
    with (
        _partition_consumer(bootstrap, source.properties, follow=source.follow) as consumer,
        plain_errors(bootstrap, topic),
    ):
        partitions = chosen_partitions(consumer, topic, source.partitions, bootstrap)
        reading = Reading(consumer, topic, partitions, source.start)
        reading.run(print_records, count=count, follow=source.follow, bootstrap=bootstrap)


def _consume_in_group(
    source: Source, membership: Membership, print_records: PrintRecords, *, count: int | None
) -> bool:
    """Return whether the group has the offsets of all that was printed."""
    consumer = group_consumer_client(source.bootstrap, source.properties, membership.settings())
    with _group_reading(consumer, membership, source.topics, source.bootstrap) as reading:
        reading.run(print_records, count=count)
    return not reading.is_behind


def _layout(
    format_: str, key_separator: str | None, null_text: str | None, formats: Formats
) -> tuple[Layout, LineOptions]:
    """Return how records are written, and what keys and values are.

    Raises:
        UsageProblem: there is no such format, or another option does not fit it.
    """
    if is_template(format_):
        if key_separator is not None:
            raise UsageProblem("--key-separator is for --format lines; a template has %k")
        chosen = Format.LINES
    elif format_ in list(Format):
        chosen = Format(format_)
    else:
        raise UsageProblem(f"--format {format_}: it is {', '.join(Format)}, or a template such as '%k = %s\\n'")
    if chosen is not Format.LINES and (key_separator is not None or null_text is not None):
        raise UsageProblem("--key-separator and --null are for --format lines")
    plain = LineOptions(chosen, _encoded(key_separator), None, _encoded(null_text))
    options = replace(plain, key_codec=formats.for_reading("key"), value_codec=formats.for_reading("value"))
    if not is_template(format_):
        return Layout(record_writer(options), record_writer(plain)), options
    try:
        return Layout(template_writer(format_, options), template_writer(format_, plain)), options
    except BadTemplate as problem:
        raise UsageProblem(f"--format {format_}: {problem}") from None


def _print_records(printer: RecordPrinter) -> PrintRecords:
    def print_records(messages: list["Message"], limit: int | None) -> tuple[int, int]:
        return printer.print(map(to_record, messages), limit)

    return print_records


def _start(offset: str, *, follow: bool) -> StartOffset:
    try:
        start = parse_start_offset(offset)
    except BadOffset as error:
        raise UsageProblem(f"--offset: {error}") from None
    if start.anchor is Anchor.LATEST and not follow:
        raise UsageProblem("--offset latest shows only what is still to come; add --follow")
    return start


def _membership(
    group: str | None,
    protocol: GroupProtocol | None,
    instance_id: str | None,
    commit_interval_s: float | None,
    source: Source,
) -> Membership | None:
    """Return how to be a member of the group; None if there is none.

    Raises:
        UsageProblem: what was chosen is for a group, and there is none, or it does not go with one.
    """
    if group is None:
        if protocol is not None or instance_id is not None or commit_interval_s is not None:
            raise UsageProblem("--group-protocol, --instance-id and --commit-interval are for --group")
        return None
    return Membership(
        group=group,
        protocol=protocol or GroupProtocol.CLASSIC,
        instance_id=instance_id,
        commit_interval_s=COMMIT_INTERVAL_DEFAULT_S if commit_interval_s is None else commit_interval_s,
        reset=_reset(source.start, source.partitions),
        follow=source.follow,
    )


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
) -> Iterator[GroupConsumer]:
    """Yield a member of the group, which leaves it in the end, however that comes."""
    try:
        for topic in topics:
            if not topic.startswith("^"):
                partition_count(consumer, topic, bootstrap)
    except BaseException:
        close(consumer)
        raise
    with plain_errors(bootstrap, f"group {membership.group}"):
        reading = GroupConsumer(consumer, membership, topics, bootstrap)
        try:
            yield reading
        finally:
            reading.leave()


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
