"""What a simulated process makes of the changes that its watch brings: the state that etcd's own tracker has made.

Every process would come to the same states by the same changes, with its own `StateTracker`, and it would take a
third of a simulation's time. Here the changes are counted instead: a watch that passes over one, or brings one twice,
is found out at once.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla_core.cluster.etcd.key_value import KeyChange, KeyValue
from ottla_core.cluster.state.json_fields import BadValue
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import ClusterState, PartitionState, Shard
from ottla_core.cluster.state.state_tracker import ClusterReplaced
from tests.simulation.fake_etcd import FakeEtcd
from tests.simulation.fake_log import InvariantViolated


class SharedTracker:
    """Stands in for `StateTracker`.

    Attributes:
        state: the newest state.
    """

    def __init__(self, etcd: FakeEtcd, _key_space: KeySpace, _cluster_id: str) -> None:
        self._etcd = etcd
        self._listed_revision = 0
        self.state = ClusterState()

    def advance(self, changes: Sequence[KeyChange], revision: int) -> list[BadValue]:
        """Take over the state of a revision."""
        former, seen = self._etcd.seen_at(self.state.revision), self._etcd.seen_at(revision)
        if seen.change_count - former.change_count != len(changes):
            raise InvariantViolated(
                f"a watch brings every change once: {len(changes)} changes from revision {self.state.revision} to "
                f"{revision}, not {seen.change_count - former.change_count}"
            )
        self._take_over(seen.state)
        return []

    def reload(self, entries: Sequence[KeyValue], revision: int) -> list[BadValue]:
        """Take over the state of a listing; which topics have been deleted before is not known."""
        del entries
        if revision < self.state.revision:
            raise ClusterReplaced(f"etcd is at revision {revision}")
        self._listed_revision = revision
        self._take_over(self._etcd.seen_at(revision).state)
        return []

    def _take_over(self, state: ClusterState) -> None:
        seen = {
            topic_id: revision
            for topic_id, revision in state.deleted_topics.items()
            if revision > self._listed_revision or topic_id in self.state.deleted_topics
        }
        self.state = state if len(seen) == len(state.deleted_topics) else replace(state, deleted_topics=seen)

    def orphans(self) -> Sequence[PartitionState]:
        """Return partitions that no topic counts."""
        return self._etcd.seen_at(self.state.revision).orphans

    def orphan_shards(self) -> Sequence[Shard]:
        """Return nothing: there are no shards here."""
        return ()

    def check_cluster_id(self, entry: KeyChange | None) -> None:
        """Believe that it is the same cluster."""

    def check_recovery(self, entry: KeyValue | None) -> None:
        """Believe that it was not recovered."""
