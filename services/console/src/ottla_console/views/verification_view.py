"""A comparison of two clusters: what is asked for by a form, and what was found, in bounded length. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla_operations.mirror.differences import Kind, PartitionOutcome, State

TOPICS_MAX: Final = 100
TOPIC_CHARACTERS_MAX: Final = 249
UNEQUAL_SHOWN_MAX: Final = 200
TEXT_MAX: Final = 500
NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
WITHOUT_CONTENT: Final = frozenset({Kind.OFFSET, Kind.LEADER_EPOCH, Kind.START, Kind.TOPIC, Kind.PARTITION})
"""Differences whose details hold nothing of records, which rules of masking may keep from whoever looks."""
GRADES: Final = {State.EQUAL: "good", State.BEHIND: "advice", State.DIFFERENT: "bad", State.UNREADABLE: "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A comparison that is asked for.

    Attributes:
        source: the console's name of the cluster that is copied.
        topics: their names at the source; empty for all that are not internal.
        alias: what stands before them at the target, with a dot; empty for nothing.
        is_linked: whether offsets and batches have to be the same, too.
    """

    source: str
    topics: tuple[str, ...]
    alias: str
    is_linked: bool

    @property
    def patterns(self) -> list[str]:
        """The topics as patterns that match nothing else."""
        return [re.escape(each) for each in self.topics]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnequalRow:
    """A partition that is not equal to its copy, and why."""

    topic: str
    target_topic: str
    partition: int
    state: State
    grade: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a comparison has found.

    Attributes:
        counts: partitions by state.
        records: how many were compared.
        unequal: the first partitions that are not equal; `unequal_more` are left out.
    """

    counts: Mapping[State, int]
    records: int
    unequal: Sequence[UnequalRow]
    unequal_more: int

    @property
    def is_equal(self) -> bool:
        """Whether every partition is."""
        return all(not count for state, count in self.counts.items() if state is not State.EQUAL)


def wanted_of(form: Mapping[str, str], sources: Sequence[str]) -> Wanted:
    """Return what a form asks for.

    Args:
        form: its fields.
        sources: the clusters that may be compared.

    Raises:
        ValueError: it cannot be carried out; the message says why.
    """
    source, alias = form.get("source", ""), form.get("alias", "").strip()
    if source not in sources:
        raise ValueError("choose the source among the clusters that the console shows, and sign in there")
    topics = tuple(dict.fromkeys(form.get("topics", "").replace(",", " ").split()))
    if len(topics) > TOPICS_MAX:
        raise ValueError(f"there are {len(topics):,} topics; name at most {TOPICS_MAX}, or none for all")
    for each in (*topics, *([alias] if alias else [])):
        if len(each) > TOPIC_CHARACTERS_MAX or not NAME.fullmatch(each):
            raise ValueError(f"{each[:50]!r} is no name of a topic or cluster: letters, digits, '.', '_' and '-'")
    return Wanted(source=source, topics=topics, alias=alias, is_linked=form.get("linked") == "yes")


def found_of(outcomes: Sequence[PartitionOutcome]) -> Found:
    """Return what was found, with the first partitions that are not equal."""
    unequal = [each for each in outcomes if each.state is not State.EQUAL]
    return Found(
        counts=Counter(each.state for each in outcomes),
        records=sum(each.records for each in outcomes),
        unequal=[
            UnequalRow(
                topic=each.topic,
                target_topic=each.target_topic,
                partition=each.partition,
                state=each.state,
                grade=GRADES[each.state],
                words=_words(each)[:TEXT_MAX],
            )
            for each in unequal[:UNEQUAL_SHOWN_MAX]
        ],
        unequal_more=max(0, len(unequal) - UNEQUAL_SHOWN_MAX),
    )


def _words(outcome: PartitionOutcome) -> str:
    if outcome.problem is not None:
        return f"cannot be compared: {outcome.problem}"
    if outcome.difference is not None:
        difference = outcome.difference
        return str(difference if difference.kind in WITHOUT_CONTENT else replace(difference, detail=""))
    return f"{outcome.behind_records:,} offsets before {outcome.source_end:,} are not copied yet"
