"""What must hold of transactions, looked at while they go on and in the end.

While they go on, by what readers of committed records see: it only grows, and nothing is seen of a transaction
whose commit nobody has asked for. In the end, when all faults are over and every transaction has had its time: none
is open, each is seen as a whole or not at all, as its writer was told, in order and once, and its offset is
committed with it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ottla_broker.log.partition.partition_log import PartitionLog
from ottla_core.topic_partition import TopicPartition
from tests.simulation.transactions.control import DATA_TOPIC
from tests.simulation.transactions.writers import Notes, Transaction
from tests.support.broker.transactional_logs import committed_values

Seen = Mapping[int, Sequence[bytes]]
"""The values that a reader of committed records has got from each partition."""


class Reader:
    """A reader of committed records that goes on where it has stopped.

    Attributes:
        seen: all that it has got.
    """

    def __init__(self) -> None:
        self.seen: dict[int, list[bytes]] = {}
        self._positions: dict[int, int] = {}

    def read(self, logs: Mapping[TopicPartition, PartitionLog]) -> dict[int, list[bytes]]:
        """Return what is new in the partitions with these logs."""
        new = {}
        for name, log in logs.items():
            position = self._positions.get(name.partition, 0)
            if name.topic == DATA_TOPIC and log.last_stable_offset > position:
                new[name.partition] = [value for value in committed_values(log, position) if value is not None]
                self._positions[name.partition] = log.last_stable_offset
                self.seen.setdefault(name.partition, []).extend(new[name.partition])
        return new


def serial_of(value: bytes) -> int:
    """Return which transaction a record is of."""
    return int(value.partition(b":")[0])


def problems_meanwhile(new: Seen, notes: Notes) -> Iterator[str]:
    """What is wrong with what readers have just got."""
    for values in new.values():
        for value in values:
            if notes.transactions[serial_of(value)].asked is not True:
                yield f"{value!r} is seen, and its commit was not asked for"


def problems_at_last(
    before: Seen, notes: Notes, logs: Mapping[TopicPartition, PartitionLog], offsets: Mapping[str, int]
) -> Iterator[str]:
    """What is wrong in the end.

    Args:
        before: what a reader has got who has read all the time.
        notes: of the writers.
        logs: of all partitions.
        offsets: the committed offset of each transactional id's group.
    """
    reader = Reader()
    seen = reader.read(logs)
    for partition, values in before.items():
        if values != seen.get(partition, [])[: len(values)]:
            yield f"what was seen in partition {partition} is not there any more"
    for name, log in logs.items():
        if log.last_stable_offset != log.log_end_offset:
            yield f"a transaction is open in {name} from {log.last_stable_offset} on, and nobody ends it"
    found: defaultdict[int, dict[int, list[bytes]]] = defaultdict(dict)
    for partition, values in seen.items():
        for value in values:
            found[serial_of(value)].setdefault(partition, []).append(value)
    for transaction in notes.transactions.values():
        yield from _problems_of(transaction, found.get(transaction.serial, {}))
    yield from _order_problems(seen, notes)
    yield from _offset_problems(found, notes, offsets)


def _problems_of(transaction: Transaction, found: Mapping[int, list[bytes]]) -> Iterator[str]:
    serial, wanted = transaction.serial, {key: value for key, value in transaction.values.items() if value}
    if found and transaction.asked is not True:
        yield f"transaction {serial} is seen, and its commit was not asked for"
    if found and transaction.told is False:
        yield f"transaction {serial} is seen, and its abort was confirmed"
    if found and found != wanted:
        lacking = {key: len(value) - len(found.get(key, [])) for key, value in wanted.items()}
        yield f"transaction {serial} is not seen as it was written; missing records by partition: {lacking}"
    if transaction.told is True and wanted and not found:
        yield f"transaction {serial} is not seen, and its commit was confirmed"


def _order_problems(seen: Seen, notes: Notes) -> Iterator[str]:
    """In each partition the transactions of an id are in the order in which they were begun."""
    for partition, values in seen.items():
        last: dict[str, int] = {}
        for value in values:
            serial = serial_of(value)
            transactional_id = notes.transactions[serial].transactional_id
            if last.get(transactional_id, -1) > serial:
                yield f"transaction {serial} comes behind a later one of its id in partition {partition}"
            last[transactional_id] = serial


def _offset_problems(found: Mapping[int, object], notes: Notes, offsets: Mapping[str, int]) -> Iterator[str]:
    """The offset of a group is that of the last transaction that is seen of those which have committed one."""
    expected: dict[str, int] = {}
    uncertain: dict[str, set[int]] = {}
    for transaction in notes.transactions.values():
        if transaction.offset is None:
            continue
        if transaction.serial in found or transaction.told is True:
            expected[transaction.transactional_id] = transaction.offset
            uncertain[transaction.transactional_id] = set()
        elif not transaction.values and transaction.asked is True:
            uncertain.setdefault(transaction.transactional_id, set()).add(transaction.offset)
    for transactional_id, offset in expected.items():
        committed = offsets.get(transactional_id)
        if committed != offset and committed not in uncertain[transactional_id]:
            yield f"the group of {transactional_id} is at {committed}, its last transaction has committed {offset}"
    for transactional_id, committed in offsets.items():
        if transactional_id not in expected and committed not in uncertain.get(transactional_id, set()):
            yield f"the group of {transactional_id} is at {committed}, by no transaction that is seen"
