"""`ottla mirror verify`: compares the topics of two clusters."""

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.kafka_client import BOOTSTRAP_DEFAULT, Bootstrap, ClientProperties, Json, client_config
from ottla.mirror.cluster_arguments import SourceAddress, SourceProfile, SourceProperties, source_config
from ottla.mirror.duration_text import duration_text
from ottla.output import ProgressBar, note, print_json, print_table, progress_bar
from ottla_operations.kafka_access import check_reachable, check_settings
from ottla_operations.quantities import counted, human_bytes

if TYPE_CHECKING:
    from ottla_operations.mirror.cluster_reader import ClusterReader
    from ottla_operations.mirror.differences import PartitionOutcome
    from ottla_operations.mirror.topic_pairs import Naming
    from ottla_operations.mirror.verification import Rules

DIFFERENCES_SHOWN_MAX = 50


def verify(
    *,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATTERN…",
            show_default="all but internal ones",
            help="Topics of the source: regular expressions, as MirrorMaker 2 has them.",
        ),
    ] = None,
    source: SourceAddress = None,
    source_profile: SourceProfile = None,
    source_properties: SourceProperties = None,
    alias: Annotated[
        str | None,
        typer.Option(
            "--alias", metavar="NAME", help="The target's topics are called NAME.TOPIC; without it as at the source."
        ),
    ] = None,
    separator: Annotated[str, typer.Option("--separator", help="What stands between alias and topic.")] = ".",
    linked: Annotated[
        bool,
        typer.Option("--linked", help="Linked topics: also offsets, batches and leader epochs have to be the same."),
    ] = False,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", help="The target may lack the source's oldest records: its retention is its own."),
    ] = False,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0.0, help="How long to wait for what is not copied yet.")
    ] = 0.0,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    properties: ClientProperties = None,
    as_json: Json = False,
) -> None:
    """Compare a source's topics with their copies, partition by partition, and say where they first differ.

    The target is named as in all commands. Records are compared in their order: keys, values, headers, timestamps; of
    transactions what was committed; of compacted topics the last record of each key. A source that is written to is
    compared up to where it ends now. Exits with 1 unless everything is equal.

    [bold]Examples[/bold]

      ottla mirror verify --source kafka-1:9092

      ottla mirror verify 'orders.*' --source kafka-1:9092 --alias west --wait 60

      ottla mirror verify --source kafka-1:9092 --linked --json
    """
    from ottla_operations.mirror.comparing import reader_of  # noqa: PLC0415 - help has no use for it
    from ottla_operations.mirror.topic_pairs import Naming  # noqa: PLC0415
    from ottla_operations.mirror.verification import Rules  # noqa: PLC0415

    config = client_config(bootstrap, properties)
    source_address, config_of_source = source_config(source, source_profile, source_properties)
    check_settings(config)
    check_reachable(bootstrap, config)
    readers = reader_of(source_address, config_of_source, "source"), reader_of(bootstrap, config, "target")
    rules = Rules(is_linked=linked, overlap_only=overlap, wait_s=wait_s)
    outcomes = asyncio.run(_verified(*readers, topics or [], Naming(alias=alias, separator=separator), rules))
    if as_json:
        print_json([_document(each) for each in outcomes])
    else:
        _print_outcomes(outcomes)
    if any(each.state != "equal" for each in outcomes):
        raise typer.Exit(1)


async def _verified(
    source: "ClusterReader", target: "ClusterReader", patterns: list[str], naming: "Naming", rules: "Rules"
) -> "list[PartitionOutcome]":
    from ottla_operations.mirror.comparing import compared  # noqa: PLC0415

    with progress_bar("rate", "left") as bar:
        display = _Display(bar)
        return await compared(source, target, patterns, naming, rules, begun=display.begin, advanced=display.advance)


class _Display:
    """Progress, by the source's offsets, with the rate at which bytes are read and the time that is left."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._task: Any = bar.add_task("looking at topics", total=None, rate="", left="")
        self._began_s = time.monotonic()
        self._total = 0
        self._offsets = 0
        self._size_bytes = 0

    def begin(self, offsets: int) -> None:
        self._total = offsets
        self._began_s = time.monotonic()
        self._bar.update(self._task, description="comparing", total=max(1, offsets))

    def advance(self, offsets: int, size_bytes: int) -> None:
        self._offsets += offsets
        self._size_bytes += size_bytes
        elapsed_s = max(time.monotonic() - self._began_s, 1e-3)
        left_s = elapsed_s / self._offsets * (self._total - self._offsets) if self._offsets else None
        self._bar.update(
            self._task,
            completed=self._offsets,
            rate=f"{human_bytes(self._size_bytes / elapsed_s)}/s",
            left="" if left_s is None else f"{duration_text(left_s)} left",
        )


def _document(outcome: "PartitionOutcome") -> dict[str, Any]:
    difference = outcome.difference
    return {
        "topic": outcome.topic,
        "target_topic": outcome.target_topic,
        "partition": outcome.partition,
        "state": str(outcome.state),
        "records": outcome.records,
        "source_start": outcome.source_start,
        "source_end": outcome.source_end,
        "behind": outcome.behind_records,
        "notes": outcome.notes,
        "difference": None
        if difference is None
        else {
            "kind": str(difference.kind),
            "source_offset": difference.source_offset,
            "target_offset": difference.target_offset,
            "detail": difference.detail,
        },
        "error": outcome.problem,
    }


def _print_outcomes(outcomes: "list[PartitionOutcome]") -> None:
    by_topic: dict[tuple[str, str], list[PartitionOutcome]] = {}
    for each in outcomes:
        by_topic.setdefault((each.topic, each.target_topic), []).append(each)
    print_table(
        ["topic", "at the target", "partitions#", "records#", "equal#", "behind#", "different#", "unreadable#"],
        [
            (
                *names, len(several), sum(each.records for each in several),
                *(sum(each.state == state for each in several)
                  for state in ("equal", "behind", "different", "unreadable")),
            )
            for names, several in by_topic.items()
        ],
    )  # fmt: skip
    unequal = [each for each in outcomes if each.state != "equal"]
    for each in unequal[:DIFFERENCES_SHOWN_MAX]:
        print(f"{each.topic}-{each.partition}: {_told(each)}")
    if len(unequal) > DIFFERENCES_SHOWN_MAX:
        print(f"and {counted(len(unequal) - DIFFERENCES_SHOWN_MAX, 'more partition')}; --json shows all")
    for each in outcomes:
        for remark in each.notes:
            note(f"{each.topic}-{each.partition}: {remark}")


def _told(outcome: "PartitionOutcome") -> str:
    if outcome.problem is not None:
        return f"cannot be compared: {outcome.problem}"
    if outcome.difference is not None:
        return str(outcome.difference)
    return f"{counted(outcome.behind_records, 'offset')} before {outcome.source_end} not copied yet"
