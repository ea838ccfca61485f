"""Whatever producers, brokers and time do to a shard of transactions, in any order:

- another owner that replays what was stored knows the same (`last_producer_epoch` is in memory only, as in Kafka);
- identities only move on, and no two producers get the same one; nobody gets the last epoch;
- what is decided stays decided until it is complete, and an end is decided once;
- markers of one identity say the same; from transaction version 2 on no two transactions of an id share one;
- the time of exactly the open transactions runs.
"""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_group_coordinator.transactions.effects import SendMarkers
from ottla_group_coordinator.transactions.settings import TransactionSettings
from ottla_group_coordinator.transactions.transaction import EPOCH_BUMP_VERSION, EPOCH_MAX, Identity, Transaction
from ottla_group_coordinator.transactions.transaction_state import PREPARED, TransactionState
from tests.support.transactions.transaction_scene import TransactionScene

IDS = ("t", "u")
NAMES = ("a", "b", "c")

names = st.sampled_from(NAMES)
ids = st.sampled_from(IDS)
partitions = st.lists(st.sampled_from(["p-0", "p-1", "q-0"]), min_size=1, max_size=3).map(" ".join)
flags = st.sampled_from("0001")
expected = st.sampled_from(["own", "101/0", "101/32766"])
ends = st.sampled_from(["commit", "abort"])
events = st.one_of(
    st.builds("init {} id={} timeout=15s two_phase={} keep={}".format, names, ids, flags, flags),
    st.builds("init {} id={} timeout=15s as={}".format, names, ids, expected),
    st.builds("add {} {} id={} version={}".format, names, partitions, ids, st.sampled_from("35")),
    st.builds("verify {} {} id={}".format, names, partitions, ids),
    st.builds("{} {} id={} version={}".format, ends, names, ids, st.sampled_from("455")),
    st.builds("written {}".format, st.integers(1, 12)),
    st.builds("advance {}s".format, st.integers(1, 30)),
    st.just("advance 2h"),
    st.just("restart"),
    st.builds("transaction.version {}".format, st.sampled_from("122")),
    st.just("age"),
)


class Watched:
    """A scene whose every turn is checked."""

    def __init__(self) -> None:
        self.scene = TransactionScene(
            settings=TransactionSettings(two_phase_commit=True, expiration_ms=3_600_000, expiration_check_ms=60_000)
        )
        self.given: dict[str, list[Identity]] = defaultdict(list)
        self.follower = self.scene.replayed()
        self.seen_records = 0
        self.orders: dict[tuple[str, Identity], tuple[bool, int]] = {}
        self.seen_orders = 0

    def do(self, event: str) -> None:
        """Let an event happen, and look."""
        scene = self.scene
        if event == "age":
            known = scene.shard.transactions.get("t")
            if known is not None and known.state not in PREPARED and known.producer_epoch < 32_000:
                scene.run(["epoch 32765"])
        elif event.startswith("written"):
            number = int(event.split()[1])
            if number <= len(scene.orders):
                scene.run([event])
        elif "as=own" in event:
            own = scene.identities.get(event.split()[1])
            scene.run([event.replace("as=own", f"as={own.producer_id}/{own.epoch}" if own else "as=-1/-1")])
        else:
            scene.run([event])
        self.look(is_new_owner=event == "restart")

    def look(self, *, is_new_owner: bool) -> None:
        """See that all rules are kept."""
        shard = self.scene.shard
        replayed = self.scene.replayed()
        assert replayed.transactions == shard.transactions
        assert replayed.ownership_number == shard.ownership_number
        for transactional_id, now in shard.transactions.items():
            is_timed = now.state is TransactionState.ONGOING and not now.is_two_phase
            assert (transactional_id in shard.timeouts) == is_timed
            assert (transactional_id in shard.sent_ends) == (now.state in PREPARED)
        self.look_at_records()
        for order in self.scene.orders[self.seen_orders :]:
            self.look_at_order(order, is_repeated=is_new_owner)
        self.seen_orders = len(self.scene.orders)
        for identity in self.scene.identities.values():
            assert identity.epoch < EPOCH_MAX

    def look_at_records(self) -> None:
        """See what each new record changes: a held request goes on right behind the end that it waited for."""
        for record in self.scene.records(self.seen_records):
            before = dict(self.follower.transactions)
            self.follower.replay(record)
            for transactional_id, now in self.follower.transactions.items():
                if transactional_id in before:
                    self.look_at_change(before[transactional_id], now)
        self.seen_records = len(self.scene.log)

    def look_at_change(self, before: Transaction, now: Transaction) -> None:
        """See that identities move on, and that what is decided stays."""
        assert now.updated_ms >= before.updated_ms
        if now.producer_id == before.producer_id:
            assert now.producer_epoch >= before.producer_epoch
        else:
            assert now.producer_id > before.producer_id
        if before.state in PREPARED and now.state in PREPARED:
            assert (before.state, before.identity) == (now.state, now.identity)
        if before.state is TransactionState.PREPARE_COMMIT and now.state not in PREPARED:
            assert now.state is TransactionState.COMPLETE_COMMIT
        if before.state is TransactionState.PREPARE_ABORT and now.state not in PREPARED:
            assert now.state is TransactionState.COMPLETE_ABORT

    def look_at_order(self, order: SendMarkers, *, is_repeated: bool) -> None:
        """See that no two ends of one identity differ."""
        key = order.end.transactional_id, order.end.identity
        decided = order.is_commit, order.transaction_version
        if is_repeated:
            assert self.orders[key] == decided
        elif order.transaction_version >= EPOCH_BUMP_VERSION:
            assert key not in self.orders, "an end has an epoch of its own"
        self.orders[key] = decided


@settings(max_examples=300, deadline=None)
@given(st.lists(events, max_size=60))
def test_all_that_may_happen(happenings: list[str]) -> None:
    watched = Watched()
    for event in happenings:
        watched.do(event)
    # In the end all can be completed: nothing is ever stuck.
    for number in range(1, len(watched.scene.orders) + 1):
        watched.do(f"written {number}")
    assert not any(now.state in PREPARED for now in watched.scene.shard.transactions.values())
