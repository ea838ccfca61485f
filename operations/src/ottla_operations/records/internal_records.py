"""What records of Kafka's internal topics ``__consumer_offsets`` and ``__transaction_state`` say, in words. Pure.

A key begins with two bytes that tell the record's type, a value with two that tell its version; a record without a
value takes back what the earlier one said. As much is read as a sentence needs; the group coordinator has codecs of
all of it. Flexible versions (KIP-482) have lengths as unsigned varints plus one.

Source: the schemas beside `CoordinatorRecordType` in Kafka's group coordinator, and `TransactionLogKey` and
`TransactionLogValue` in its transaction coordinator.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
NAMES_TOLD_MAX: Final = 20
VARINT_SHIFT_MAX: Final = 28
OWNERSHIP_TYPE: Final = 30_000
TRANSACTION_STATES: Final = (
    "is empty",
    "is ongoing",
    "is to be committed",
    "is to be aborted",
    "was committed",
    "was aborted",
    "has expired",
    "is being fenced",
)


class _Unread(Exception):
    """The bytes are none that this file knows."""


class _Reader:
    """Reads fields one after another; no length is believed before it is compared with the bytes that are there."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.version = self.number(2)
        self.is_flexible = False

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def text(self) -> str:
        found = self.nullable_text()
        if found is None:
            raise _Unread
        return found

    def nullable_text(self) -> str | None:
        length = self._varint() - 1 if self.is_flexible else self.number(2)
        try:
            return None if length < 0 else self._take(length).decode()
        except UnicodeDecodeError:
            raise _Unread from None

    def count(self) -> int:
        """Return the length of an array; a null one has none."""
        length = self._varint() - 1 if self.is_flexible else self.number(4)
        if length > len(self._data) - self._at:  # an element takes a byte at least
            raise _Unread
        return max(0, length)

    def partitions(self, name: Callable[["_Reader"], object]) -> list[tuple[object, list[int]]]:
        """Return topics, each with its partitions."""
        found = []
        for _ in range(self.count()):
            topic = name(self)
            found.append((topic, [self.number(4) for _ in range(self.count())]))
            if self.is_flexible and self._varint():
                raise _Unread  # no version has tagged fields here
        return found

    def uuid(self) -> bytes:
        return self._take(16)

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) < size:
            raise _Unread
        self._at += size
        return part

    def _varint(self) -> int:
        number = 0
        for shift in range(0, VARINT_SHIFT_MAX + 1, 7):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise _Unread


def internal_sentence(topic: str | None, key: bytes | None, value: bytes | None) -> str | None:
    """Return what a record of an internal topic says; None for other topics, and for what cannot be read."""
    kinds = {OFFSETS: _GROUP_SENTENCES, TRANSACTIONS: _TRANSACTION_SENTENCES}.get(topic or "")
    if kinds is None or key is None:
        return None
    try:
        read_key = _Reader(key)
        if read_key.version not in kinds:
            return None
        sentence, newest = kinds[read_key.version]
        read_value = None if value is None else _Reader(value)
        if read_value is not None and not 0 <= read_value.version <= newest:
            return None
        return sentence(read_key, read_value)
    except _Unread:
        return None


def _offset(key: _Reader, value: _Reader | None) -> str:
    group, topic, partition = key.text(), key.text(), key.number(4)
    if value is None:
        return f"Group {group} has no offset in {topic}:{partition} any more."
    value.is_flexible = value.version >= 4
    offset = value.number(8)
    if value.version >= 3:
        value.number(4)
    metadata = value.text()
    note = f", with the note “{metadata}”" if metadata else ""
    return (
        f"Group {group} goes on at offset {offset} of {topic}:{partition}, committed {_time(value.number(8))}{note}."
    )


def _classic_group(key: _Reader, value: _Reader | None) -> str:
    group = key.text()
    if value is None:
        return f"Group {group} is no group of the classic protocol any more."
    value.is_flexible = value.version >= 4
    kind, generation, protocol, leader = value.text(), value.number(4), value.nullable_text(), value.nullable_text()
    if value.version >= 2:
        value.number(8)
    members = value.count()
    if not members:
        return f"Group {group} of the classic protocol has no members, in generation {generation}."
    return (
        f"Group {group} of the classic protocol ({kind}) has {_counted(members, 'member')} in generation "
        f"{generation}, assigned by {protocol}, led by {leader}."
    )


def _group_epoch(key: _Reader, value: _Reader | None) -> str:
    group = key.text()
    if value is None:
        return f"Group {group} is no group of the consumer protocol any more."
    return f"Group {group} of the consumer protocol is at epoch {value.number(4)}."


def _group_topics(key: _Reader, value: _Reader | None) -> str:
    group = key.text()
    if value is None:
        return f"What group {group} knew of its topics' partitions is forgotten."
    value.is_flexible = True
    return f"Group {group} knows the partitions of {_counted(value.count(), 'topic')}."


def _member(key: _Reader, value: _Reader | None) -> str:
    group, member = key.text(), key.text()
    if value is None:
        return f"Member {member} has left group {group}."
    value.is_flexible = True
    value.nullable_text()
    value.nullable_text()
    client, host = value.text(), value.text()
    topics = [value.text() for _ in range(value.count())]
    expression = value.nullable_text()
    wanted = _listed(topics) if topics or not expression else f"what matches {expression}"
    return f"Member {member} of group {group}, client {client} at {host}, subscribes to {wanted}."


def _target_epoch(key: _Reader, value: _Reader | None) -> str:
    group = key.text()
    if value is None:
        return f"Group {group} has no target assignment any more."
    return f"The target assignment of group {group} is of epoch {value.number(4)}."


def _target(key: _Reader, value: _Reader | None) -> str:
    group, member = key.text(), key.text()
    if value is None:
        return f"Member {member} of group {group} shall own nothing any more."
    value.is_flexible = True
    return f"Member {member} of group {group} shall own {_owned(value)}."


def _current(key: _Reader, value: _Reader | None) -> str:
    group, member = key.text(), key.text()
    if value is None:
        return f"Member {member} of group {group} owns nothing any more."
    value.is_flexible = True
    epoch = value.number(4)
    value.number(4)
    value.number(1)
    return (
        f"Member {member} of group {group} is at epoch {epoch} and owns {_owned(value)}; "
        f"it has to give back {_owned(value)}."
    )


def _expression(key: _Reader, value: _Reader | None) -> str:
    group, expression = key.text(), key.text()
    if value is None:
        return f"Group {group} has no member any more that subscribes to what matches {expression}."
    value.is_flexible = True
    topics = [value.text() for _ in range(value.count())]
    return f"Of group {group}, {expression} matches {_listed(topics)}."


def _transaction(key: _Reader, value: _Reader | None) -> str:
    id_ = key.text()
    if value is None:
        return f"The transactional id {id_} has expired."
    value.is_flexible = value.version >= 1
    producer, epoch, timeout_ms, state = value.number(8), value.number(2), value.number(4), value.number(1)
    topics = value.partitions(_Reader.text)
    if not 0 <= state < len(TRANSACTION_STATES):
        raise _Unread
    named = [f"{topic}:{partition}" for topic, partitions in topics for partition in partitions]
    where = f" in {_listed(named)}" if named else ""
    return (
        f"The transaction of {id_} {TRANSACTION_STATES[state]}{where}, as of {_time(value.number(8))}: "
        f"producer {producer}, epoch {epoch}, at most {timeout_ms / 1000:g} s."
    )


def _ownership(_key: _Reader, value: _Reader | None) -> str:
    number = "none" if value is None else str(value.number(4))
    return f"The number of this shard's ownership is {number}; Ottla's markers of transactions bear it."


def _owned(value: _Reader) -> str:
    return _counted(sum(len(partitions) for _, partitions in value.partitions(_Reader.uuid)), "partition")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(names: list[str]) -> str:
    if not names:
        return "nothing"
    more = f" and {len(names) - NAMES_TOLD_MAX} more" if len(names) > NAMES_TOLD_MAX else ""
    return ", ".join(names[:NAMES_TOLD_MAX]) + more


def _time(time_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


_Sentence = Callable[[_Reader, _Reader | None], str]
_GROUP_SENTENCES: Final[Mapping[int, tuple[_Sentence, int]]] = {
    0: (_offset, 4),
    1: (_offset, 4),
    2: (_classic_group, 4),
    3: (_group_epoch, 0),
    4: (_group_topics, 0),
    5: (_member, 0),
    6: (_target_epoch, 0),
    7: (_target, 0),
    8: (_current, 0),
    16: (_expression, 0),
}
"""By type, with the newest version of the value that is known."""
_TRANSACTION_SENTENCES: Final[Mapping[int, tuple[_Sentence, int]]] = {
    0: (_transaction, 1),
    OWNERSHIP_TYPE: (_ownership, 0),
}
