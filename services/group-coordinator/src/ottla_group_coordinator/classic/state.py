"""The states of a classic group, and which may follow which.

Source: ClassicGroupState in Kafka; KIP-62 describes the protocol's two phases, joining and syncing.
"""

from collections.abc import Mapping
from enum import StrEnum


class ClassicGroupState(StrEnum):
    """Where a group stands; the values are what Kafka's tools show."""

    EMPTY = "Empty"
    """No members. Either they have all gone and their offsets remain, or the group only ever kept offsets.

    Does: takes new members in; takes commits without a generation; refuses anything that names a member.
    Left: a member joins → PreparingRebalance; deleted, or its last offset has expired → Dead.
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits until every member has joined again, or the rebalance timeout is over.

    Does: parks JoinGroup; tells members that heartbeat or sync to join; takes commits of the generation that ends.
    Left: all have joined, or some have when the time is over → CompletingRebalance; all have gone → Empty.
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The members know their generation; the group waits for the leader's assignment.

    Does: parks SyncGroup; takes heartbeats; refuses commits with REBALANCE_IN_PROGRESS.
    Left: the leader's SyncGroup → Stable; a member joins anew, leaves, dies or never syncs → PreparingRebalance.
    """

    STABLE = "Stable"
    """Every member has its assignment, and the log has it too.

    Does: takes heartbeats and commits; answers SyncGroup with the assignment, and JoinGroup of a follower that has
    nothing new to say with the present generation.
    Left: the leader joins again, a member joins with other metadata, leaves, dies or never syncs →
    PreparingRebalance.
    """

    DEAD = "Dead"
    """Removed from the log; only a timer that is not yet due may still know the group. There is no way back."""


PREVIOUS_STATES: Mapping[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.EMPTY, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
    ClassicGroupState.DEAD: frozenset(ClassicGroupState),
}
"""From where each state may be entered."""
