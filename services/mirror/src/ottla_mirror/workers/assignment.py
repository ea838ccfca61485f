"""Who copies which partitions. Pure.

The leader of the group shares them out evenly, and moves no more than that takes: whoever takes a partition over has
to look at the target's log first. Two workers that copy the same partition for a while do no harm (see `copy/`), so
nobody waits for a former owner.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from ottla_core.client.group.balance import excess, spread


class FlowPartition(NamedTuple):
    """A partition of the source of a flow."""

    flow: str
    topic: str
    partition: int


class TopicOf(NamedTuple):
    """A topic of a flow: its name at the source, and the flow's."""

    flow: str
    topic: str


class TopicNames(NamedTuple):
    """What is known of a topic beside its name at the source: its id there, and its name at the target."""

    topic_id: UUID
    remote_topic: str


@dataclass(frozen=True, slots=True)
class Work:
    """Partitions, and what is known of their topics."""

    partitions: frozenset[FlowPartition] = frozenset()
    topics: Mapping[TopicOf, TopicNames] = field(default_factory=dict)

    def of_flow(self, flow: str) -> frozenset[FlowPartition]:
        """Return the partitions of one flow."""
        return frozenset(each for each in self.partitions if each.flow == flow)

    def names(self, partition: FlowPartition) -> TopicNames:
        """Return what is known of a partition's topic."""
        return self.topics[TopicOf(partition.flow, partition.topic)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberState:
    """What a worker says of itself when it joins.

    Attributes:
        url: where its REST API is.
        flows: the flows that it can copy.
        held: what it copies.
        key: by which its requests to other workers are known; empty of a former version's.
    """

    url: str
    flows: frozenset[str]
    held: Work
    key: str = ""


def shares(
    members: Mapping[str, MemberState], wanted: Work, not_looked_at: frozenset[str]
) -> dict[str, frozenset[FlowPartition]]:
    """Return who copies what.

    Args:
        members: the workers, by member id.
        wanted: what the leader has found that is to be copied.
        not_looked_at: flows of which the leader does not know yet what is to be copied: it stays as it is.
    """
    items = wanted.partitions | {
        each for state in members.values() for each in state.held.partitions if each.flow in not_looked_at
    }
    assigned: dict[str, set[FlowPartition]] = {member: set() for member in members}
    for flows, able in _by_ability(members, items).items():
        some = {each for each in items if each.flow in flows}
        kept = _kept(able, members, some)
        for member, too_many in excess(kept, len(some)).items():
            kept[member] -= too_many
        held = frozenset[FlowPartition]().union(*kept.values())
        loads = {member: len(assigned[member]) + len(kept[member]) for member in able}
        given = spread(some - held, loads)
        for member in able:
            assigned[member] |= kept[member] | given[member]
    return {member: frozenset(some) for member, some in assigned.items()}


def known_topics(members: Iterable[MemberState], wanted: Work) -> dict[TopicOf, TopicNames]:
    """Return what anybody knows of topics; what the leader has found counts."""
    found: dict[TopicOf, TopicNames] = {}
    for state in members:
        found.update(state.held.topics)
    found.update(wanted.topics)
    return found


def _by_ability(
    members: Mapping[str, MemberState], items: Iterable[FlowPartition]
) -> dict[frozenset[str], tuple[str, ...]]:
    """Return flows by the workers that can copy them: mostly all flows, and all workers."""
    groups: dict[tuple[str, ...], set[str]] = {}
    for flow in {each.flow for each in items}:
        able = tuple(sorted(member for member, state in members.items() if flow in state.flows))
        if able:
            groups.setdefault(able, set()).add(flow)
    ordered = sorted(groups.items(), key=lambda each: (len(each[0]), each[0]))
    return {frozenset(flows): able for able, flows in ordered}


def _kept(
    able: Iterable[str], members: Mapping[str, MemberState], items: set[FlowPartition]
) -> dict[str, frozenset[FlowPartition]]:
    """Return what workers have of these already; of two that have the same, one keeps it."""
    taken: set[FlowPartition] = set()
    kept = {}
    for member in able:
        kept[member] = frozenset((members[member].held.partitions & items) - taken)
        taken |= kept[member]
    return kept
