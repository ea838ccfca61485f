"""`ottla group reset-offsets`: make a group go on somewhere else.

Without `--execute` it only shows what it would do. A group whose members are running is left alone: they would
overwrite the new offsets with their own, and its coordinator refuses such commits anyway.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla import completion
from ottla.groups.asking import describe_group
from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json, admin_client
from ottla.output import note, print_json, print_table
from ottla.waiting_notice import told_when_slow
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.groups.changes import commit_offsets
from ottla_operations.groups.duration import BadDuration, parse_duration_ms
from ottla_operations.groups.inspection import NoSuchGroup, Partition
from ottla_operations.groups.known_offsets import NoOffsets, known_offsets
from ottla_operations.groups.offset_reset import (
    NothingCommitted,
    PlannedOffset,
    Reset,
    Target,
    plan_reset,
)
from ottla_operations.groups.partition_selection import BadSelection, parse_selection
from ottla_operations.kafka_access import REQUEST_TIMEOUT_S
from ottla_operations.records.start_offset import parse_time_ms

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def reset_offsets(
    *,
    group: Annotated[str, typer.Argument(metavar="GROUP", autocompletion=completion.groups, help="The group.")],
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:0,1]", help="Topic or partitions; repeatable."),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Every partition it has an offset of.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="Read everything again.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Skip what is there.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="To the first record at or after a time, UTC without a zone.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="DURATION", help="So far back from now: 90s, 1h30m, 2d, PT1H.")
    ] = None,
    shift_by: Annotated[int | None, typer.Option(help="So many records on; negative goes back.")] = None,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the committed offsets; to the end where there is none.")
    ] = False,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Do it, or only show what would be done.")
    ] = False,
    create: Annotated[bool, typer.Option("--create", help="The group may be new.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Make a group go on somewhere else. Shows the new offsets; with --execute also sets them.

    The group must have no members. Offsets beyond what a partition holds become its first or its next offset.

    [bold]Examples[/bold]

      ottla group reset-offsets billing --all-topics --to-earliest

      ottla group reset-offsets billing --topic flights:0,2 --to-offset 1000 --execute

      ottla group reset-offsets billing --topic flights --to-datetime 2013-07-01T00:00 --execute

      ottla group reset-offsets billing --all-topics --by-duration 1h30m --execute

      ottla group reset-offsets billing --topic flights --shift-by -10 --execute
    """
    reset = _reset(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_offset=to_offset,
        to_datetime=to_datetime,
        by_duration=by_duration,
        shift_by=shift_by,
        to_current=to_current,
    )
    if all_topics == bool(topics):
        raise UsageProblem("say which partitions with either --topic or --all-topics")
    chosen = _selection(topics or ())
    client = admin_client(bootstrap, properties)
    has_members = _has_members(client, group, bootstrap, may_be_new=create)
    if has_members and execute:
        raise OperationError(f"group {group} has members; stop them first")
    planned = _plan(client, group, chosen, reset, bootstrap)
    errors = _commit(client, group, planned, bootstrap) if execute else {}
    _report(group, planned, errors, executed=execute, as_json=as_json)
    if has_members:
        note(f"group {group} has members; --execute will be refused until they have stopped")
    if errors:
        raise typer.Exit(1)


def _reset(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    to_current: bool,
) -> Reset:
    """Return what the one option that was given means."""
    resets = {
        "--to-earliest": Reset(Target.EARLIEST) if to_earliest else None,
        "--to-latest": Reset(Target.LATEST) if to_latest else None,
        "--to-offset": None if to_offset is None else Reset(Target.OFFSET, to_offset),
        "--to-datetime": None if to_datetime is None else Reset(Target.TIME_MS, _time_ms(to_datetime)),
        "--by-duration": None if by_duration is None else Reset(Target.TIME_MS, _ms_ago(by_duration)),
        "--shift-by": None if shift_by is None else Reset(Target.SHIFT, shift_by),
        "--to-current": Reset(Target.CURRENT) if to_current else None,
    }
    given = [reset for reset in resets.values() if reset is not None]
    if len(given) != 1:
        raise UsageProblem(f"say where to with exactly one of {', '.join(resets)}")
    return given[0]


def _time_ms(text: str) -> int:
    time_ms = parse_time_ms(text)
    if time_ms is None:
        raise UsageProblem(
            f"--to-datetime {text}: write a date and time such as 2013-07-01T00:00 or 2013-07-01T00:00Z"
        )
    return time_ms


def _ms_ago(duration: str) -> int:
    try:
        return int(time.time() * 1000) - parse_duration_ms(duration)
    except BadDuration as error:
        raise UsageProblem(f"--by-duration: {error}") from None


def _selection(topics: Sequence[str]) -> dict[str, frozenset[int]]:
    try:
        return parse_selection(topics)
    except BadSelection as error:
        raise UsageProblem(f"--topic: {error}") from None


def _has_members(client: "AdminClient", group: str, bootstrap: str, *, may_be_new: bool) -> bool:
    try:
        return bool(describe_group(client, group, bootstrap).members)
    except NoSuchGroup as error:
        if may_be_new:
            return False
        raise OperationError(f"{error}; --create makes one that has offsets before its first member comes") from None


def _plan(
    client: "AdminClient", group: str, chosen: dict[str, frozenset[int]], reset: Reset, bootstrap: str
) -> list[PlannedOffset]:
    try:
        with told_when_slow(bootstrap, REQUEST_TIMEOUT_S):
            known = known_offsets(client, group, chosen, reset, bootstrap)
    except NoOffsets as error:
        raise OperationError(f"{error} with --topic") from None
    try:
        return plan_reset(reset, known)
    except NothingCommitted as error:
        raise OperationError(str(error)) from None


def _commit(
    client: "AdminClient", group: str, planned: Sequence[PlannedOffset], bootstrap: str
) -> dict[Partition, str]:
    """Commit the new offsets and return what went wrong by partition."""
    wanted = [((each.before.topic, each.before.partition), each.new) for each in planned]
    with told_when_slow(bootstrap, REQUEST_TIMEOUT_S):
        return commit_offsets(client, group, wanted, bootstrap)


def _report(
    group: str,
    planned: Sequence[PlannedOffset],
    errors: dict[Partition, str],
    *,
    executed: bool,
    as_json: bool,
) -> None:
    rows = [_row(each, errors.get((each.before.topic, each.before.partition))) for each in planned]
    if as_json:
        print_json({"group": group, "executed": executed, "partitions": rows})
    else:
        print_table(
            ["topic", "partition#", "committed#", "new offset#", "log end#", "lag#"],
            [
                (
                    row["topic"], row["partition"], row["committed_offset"], row["new_offset"],
                    row["log_end_offset"], row["log_end_offset"] - row["new_offset"],
                )
                for row in rows
            ],
            title=f"{group}: {'reset' if executed else 'would be reset'}",
        )  # fmt: skip
    for each in planned:
        if each.wanted != each.new:
            note(
                f"{each.before.topic} partition {each.before.partition} has no offset {each.wanted}; "
                f"{each.new} is the nearest"
            )
    for (topic, partition), reason in errors.items():
        note(f"ottla: {topic} partition {partition} was not reset: {reason}")
    if not executed and not as_json:
        note("nothing was changed; add --execute to set these offsets")


def _row(planned: PlannedOffset, error: str | None) -> dict[str, Any]:
    return {
        "topic": planned.before.topic,
        "partition": planned.before.partition,
        "committed_offset": planned.before.committed,
        "new_offset": planned.new,
        "wanted_offset": planned.wanted,
        "first_offset": planned.before.first,
        "log_end_offset": planned.before.end,
        "error": error,
    }
