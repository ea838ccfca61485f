"""Whatever coordinators come and go: every shard has one live owner, shares are even, few shards move."""

from collections import Counter
from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla_controller.shard_assignment import (
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    reassigned_shards,
    with_producer_ids,
)
from ottla_core.cluster.state.model import NO_COORDINATOR, NO_EPOCH, Member, Role, Shard
from ottla_core.shards import GROUP_TOPIC
from ottla_core.topic_partition import TopicPartition

IDS = st.integers(0, 6)
events = st.lists(st.tuples(st.sampled_from(["join", "leave", "grow", "age"]), IDS), max_size=30)


class Cluster:
    """Shards and coordinators; every assignment is checked when it is made."""

    def __init__(self, shard_count: int) -> None:
        self.shard_count = shard_count
        self.coordinators: dict[int, Member] = {}
        self.shards: dict[TopicPartition, Shard] = {}
        self.ownerships: set[tuple[int, int]] = set()
        self.next_epoch = 1
        self.next_producer_id = 0

    def join(self, coordinator_id: int) -> None:
        """Registers a coordinator, anew if it is there already."""
        self.next_epoch += 1
        self.coordinators[coordinator_id] = Member(
            role=Role.GROUP_COORDINATOR,
            id=coordinator_id,
            epoch=self.next_epoch,
            incarnation=UUID(int=1),
            rpc_address="h:1",
            version="1",
        )

    def use_up_epochs(self, left: int) -> None:
        """Lets every shard have changed so often that few epochs are left."""
        epoch = PRODUCER_EPOCH_MAX - left
        self.shards = {
            index: replace(shard, producer_epoch=max(epoch, shard.producer_epoch))
            for index, shard in self.shards.items()
        }
        self.ownerships |= {(shard.producer_id, shard.producer_epoch) for shard in self.shards.values()}

    def assign(self) -> dict[TopicPartition, Shard]:
        """Assigns as the controller does and returns what was written."""
        changed = reassigned_shards(GROUP_TOPIC, self.shard_count, self.shards, self.coordinators)
        lacking = sum(shard.producer_id == NO_PRODUCER_ID for shard in changed)
        ids = range(self.next_producer_id, self.next_producer_id + lacking)
        self.next_producer_id += lacking
        written = {shard.topic_partition: shard for shard in with_producer_ids(changed, ids)}
        for shard in written.values():
            self.check_change(self.shards.get(shard.topic_partition), shard)
        self.shards.update(written)
        self.check_balance()
        assert reassigned_shards(GROUP_TOPIC, self.shard_count, self.shards, self.coordinators) == []
        return written

    def check_change(self, former: Shard | None, new: Shard) -> None:
        """An ownership is a new one: later than the former, and named as none before."""
        ownership = (new.producer_id, new.producer_epoch)
        assert ownership not in self.ownerships
        self.ownerships.add(ownership)
        assert 0 <= new.producer_epoch <= PRODUCER_EPOCH_MAX
        if former is None:
            assert new.producer_epoch == 0
        elif former.producer_epoch == PRODUCER_EPOCH_MAX:
            assert (new.producer_id > former.producer_id, new.producer_epoch) == (True, 0)
        else:
            assert (new.producer_id, new.producer_epoch) == (former.producer_id, former.producer_epoch + 1)

    def check_balance(self) -> None:
        """Each shard has one owner, live and under its present epoch; shares differ by one at most."""
        if not self.coordinators:
            assert all(
                (shard.coordinator, shard.coordinator_epoch) == (NO_COORDINATOR, NO_EPOCH)
                for shard in self.shards.values()
            )
            return
        assert set(self.shards) == {TopicPartition(GROUP_TOPIC, index) for index in range(self.shard_count)}
        for shard in self.shards.values():
            assert self.coordinators[shard.coordinator].epoch == shard.coordinator_epoch
        counts = Counter(shard.coordinator for shard in self.shards.values())
        sizes = [counts[coordinator] for coordinator in self.coordinators]
        assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 60), events)
def test_every_shard_has_one_live_owner_and_shares_are_even(shard_count: int, happens: list[tuple[str, int]]) -> None:
    cluster = Cluster(shard_count)
    for kind, number in happens:
        match kind:
            case "age":
                cluster.use_up_epochs(number)
            case "join":
                cluster.join(number)
            case "leave":
                cluster.coordinators.pop(number, None)
            case "grow":
                cluster.shard_count += number
        cluster.assign()


@given(st.integers(1, 60), st.sets(IDS, min_size=2), st.data())
def test_when_one_leaves_only_its_shards_move(shard_count: int, ids: set[int], data: st.DataObject) -> None:
    cluster = Cluster(shard_count)
    for coordinator_id in ids:
        cluster.join(coordinator_id)
    cluster.assign()
    leaving = data.draw(st.sampled_from(sorted(ids)))
    its_own = {index for index, shard in cluster.shards.items() if shard.coordinator == leaving}
    del cluster.coordinators[leaving]
    assert set(cluster.assign()) == its_own


@given(st.integers(1, 60), st.sets(IDS, min_size=1), st.data())
def test_one_that_is_back_under_another_epoch_gets_its_shards_back_and_nothing_else_changes(
    shard_count: int, ids: set[int], data: st.DataObject
) -> None:
    cluster = Cluster(shard_count)
    for coordinator_id in ids:
        cluster.join(coordinator_id)
    cluster.assign()
    returning = data.draw(st.sampled_from(sorted(ids)))
    its_own = {index for index, shard in cluster.shards.items() if shard.coordinator == returning}
    cluster.join(returning)
    written = cluster.assign()
    assert set(written) == its_own
    assert {shard.coordinator for shard in written.values()} <= {returning}


@given(st.integers(1, 60), st.sets(IDS, min_size=1), IDS.map(lambda number: number + 10))
def test_one_that_joins_takes_its_fair_share_and_nothing_moves_between_the_others(
    shard_count: int, ids: set[int], newcomer: int
) -> None:
    cluster = Cluster(shard_count)
    for coordinator_id in ids:
        cluster.join(coordinator_id)
    cluster.assign()
    cluster.join(newcomer)
    written = cluster.assign()
    assert {shard.coordinator for shard in written.values()} <= {newcomer}
    assert len(written) == shard_count // len(cluster.coordinators)
