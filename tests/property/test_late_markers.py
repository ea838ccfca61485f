"""Markers that arrive late, twice or not at all end no transaction but their own, and every transaction ends.

Here is one transactional id, its owners one after the other, and two partitions. What an owner sends lies in a bag,
from which it is delivered at any time, also after its sender has given it up or was deposed. Partitions judge markers
as logs do: by the producer's epoch, and by the ownership number. Each record is labelled with the transaction that it
is of, each marker with the one that it is meant for; a partition sees that they are the same.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla_core.topic_partition import TopicPartition
from ottla_group_coordinator.markers.pending_end import PendingEnd
from ottla_group_coordinator.transactions.effects import SendMarkers
from ottla_group_coordinator.transactions.requests import MarkersWritten, NumberWanted
from ottla_group_coordinator.transactions.transaction import EPOCH_BUMP_VERSION, Identity
from ottla_group_coordinator.transactions.transaction_state import PREPARED, TransactionState
from tests.support.transactions.transaction_scene import TransactionScene

PARTITIONS = (TopicPartition("p", 0), TopicPartition("p", 1))


@dataclass
class Message:
    """A marker on its way.

    Attributes:
        label: of the transaction that is meant.
        pending: who waits for it, unless it was given up.
    """

    partition: TopicPartition
    order: SendMarkers
    number: int
    label: int
    pending: PendingEnd | None


@dataclass
class Producer:
    """What a log knows of a producer, and the labels of the records of its open transaction."""

    epoch: int = -1
    number: int = -1
    open_labels: set[int] = field(default_factory=set)


class Partition:
    """A log."""

    def __init__(self) -> None:
        self.producers: defaultdict[int, Producer] = defaultdict(Producer)
        self.ended: dict[int, bool] = {}

    def write_record(self, identity: Identity, label: int) -> None:
        """Append a record of a producer, unless it is of an earlier epoch."""
        producer = self.producers[identity.producer_id]
        if identity.epoch >= producer.epoch:
            assert producer.open_labels <= {label}, "no two transactions of a producer are open at once"
            producer.epoch = identity.epoch
            producer.open_labels.add(label)

    def write_marker(self, message: Message) -> bool:
        """Append a marker, unless the log refuses it; return whether it stands there now."""
        identity = message.order.end.identity
        producer = self.producers[identity.producer_id]
        is_raised = message.order.transaction_version < EPOCH_BUMP_VERSION or identity.epoch > producer.epoch
        if identity.epoch < producer.epoch or (not is_raised and producer.open_labels):
            return False
        if message.number < producer.number:
            return False
        assert producer.open_labels <= {message.label}, "a marker ends no other transaction than its own"
        for label in producer.open_labels:
            assert self.ended.setdefault(label, message.order.is_commit) == message.order.is_commit
        producer.open_labels.clear()
        producer.epoch, producer.number = identity.epoch, message.number
        return True


class World:
    """Everything."""

    def __init__(self) -> None:
        self.scene = TransactionScene()
        self.partitions = {name: Partition() for name in PARTITIONS}
        self.bag: list[Message] = []
        self.pending: PendingEnd | None = None
        self.label = 0
        self.decided: dict[int, bool] = {}
        self.seen_orders = 0

    def act(self, command: str) -> None:
        """Let a producer or time do something, or the shard get another owner."""
        before = self._state()
        if command == "restart":
            self._give_up()
        self.scene.run([command])
        if before is not TransactionState.ONGOING and self._state() is TransactionState.ONGOING:
            self.label += 1
        for order in self.scene.orders[self.seen_orders :]:
            assert self.decided.setdefault(self.label, order.is_commit) == order.is_commit
            self._give_up()
            self.pending = PendingEnd(order)
            self._send()
        self.seen_orders = len(self.scene.orders)

    def produce(self, index: int) -> None:
        """Write a record, if the coordinator says that the partition is in the transaction."""
        name = PARTITIONS[index]
        known = self.scene.shard.transactions.get("t")
        if known is not None and known.state is TransactionState.ONGOING and known.has(*name):
            self.partitions[name].write_record(known.identity, self.label)

    def deliver(self, position: int) -> None:
        """Let a message arrive, and its answer."""
        if not self.bag:
            return
        message = self.bag.pop(position % len(self.bag))
        is_written = self.partitions[message.partition].write_marker(message)
        pending = message.pending
        if pending is None or pending is not self.pending:
            return
        pending.asked.discard(message.partition)
        if is_written:
            pending.missing.discard(message.partition)
        else:
            pending.number_refused(message.number)
        self._go_on()

    def lose_answer(self, position: int) -> None:
        """Let a sender give up a message, which stays on its way."""
        if not self.bag:
            return
        message = self.bag[position % len(self.bag)]
        pending, message.pending = message.pending, None
        if pending is not None and pending is self.pending:
            pending.asked.discard(message.partition)
            pending.in_doubt((message.partition,), message.number)
            self._go_on()

    def _go_on(self) -> None:
        pending = self.pending
        assert pending is not None
        if not pending.missing:
            self.pending = None
            self.scene.tell(MarkersWritten(token=self.scene.token(), message=pending.order.end))
            return
        if pending.needs_number:
            pending.number = self.scene.tell(NumberWanted(token=self.scene.token(), message=pending.wanted_number))
        self._send()

    def _send(self) -> None:
        pending = self.pending
        assert pending is not None
        for partition in sorted(pending.due()):
            pending.asked.add(partition)
            self.bag.append(Message(partition, pending.order, pending.number, self.label, pending))

    def _give_up(self) -> None:
        for message in self.bag:
            message.pending = None
        self.pending = None

    def _state(self) -> TransactionState | None:
        known = self.scene.shard.transactions.get("t")
        return None if known is None else known.state

    def settle(self) -> None:
        """Let all that is on its way arrive, the oldest last."""
        for _ in range(1000):
            if not self.bag:
                break
            self.deliver(-1)
        assert not self.bag


Step = tuple[str, int | str]


def act(*commands: str) -> st.SearchStrategy[list[Step]]:
    """One of some commands."""
    return st.sampled_from(commands).map(lambda command: [("act", command)])


def network(size_max: int) -> st.SearchStrategy[list[Step]]:
    """What happens to messages: the oldest or the newest is delivered, or given up."""
    each = st.tuples(st.sampled_from(["deliver", "deliver", "lose_answer"]), st.sampled_from([0, -1, 1]))
    return st.lists(each, max_size=size_max)


rounds = st.tuples(
    act("add a p-0 version=3", "add a p-0 p-1 version=3", "add a p-0 p-1 version=5"),
    st.lists(st.tuples(st.just("produce"), st.integers(0, 1)), max_size=2),
    network(2),
    act("commit a version=4", "commit a version=4", "abort a version=4", "commit a version=5", "advance 80s"),
    network(5),
    st.one_of(
        st.just([]),
        st.just([]),
        act("restart", "init a", "init b", "transaction.version 1", "transaction.version 2", "advance 80s"),
    ),
    network(2),
).map(lambda parts: [step for part in parts for step in part])


def late(*meanwhile: Step) -> list[list[Step]]:
    """A commit, something in between, the newest marker; in the next transaction, the oldest."""
    first: list[Step] = [("act", "add a p-0 version=3"), ("produce", 0), ("act", "commit a version=4")]
    second: list[Step] = [("act", "add a p-0 version=3"), ("produce", 0), ("deliver", 0)]
    return [first, list(meanwhile), [("deliver", -1)], second]


@settings(max_examples=600, deadline=None)
@example(late(("act", "restart")))
@example(late(("lose_answer", 0)))
@given(st.lists(rounds, max_size=7))
def test_markers_end_their_own_transactions_and_all_of_them_end(happenings: list[list[Step]]) -> None:
    world = World()
    world.act("init a")
    for kind, argument in (step for steps in happenings for step in steps):
        getattr(world, kind)(argument)
    world.settle()
    assert world._state() not in PREPARED
    world.act("init b")
    world.settle()
    assert world._state() not in {*PREPARED, TransactionState.ONGOING}
    for partition in world.partitions.values():
        assert not any(producer.open_labels for producer in partition.producers.values()), "nothing hangs"
        assert partition.ended.items() <= world.decided.items()
