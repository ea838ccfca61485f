"""The only writer of cluster state in etcd (but for the members' own keys).

Every transaction compares the election key's mod revision, the *fence*, so a deposed controller cannot write,
whatever it believes. Every write also says which revision of its key it replaces. An attempt whose answer was lost
may still be carried out, at any later time, and what it compares with may have come back by then: a key that was
deleted equals one that never was. So before anything else is written the election key is touched: that moves the
fence, and from then on the lost attempt has happened or never will. A repetition brings back what the keys hold,
which tells. Where etcd refuses the touch, the change fails, and the next one begins with it (`settle`).
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla_core.cluster.etcd import operations as op
from ottla_core.cluster.etcd.client import EtcdClient, TransactionResult
from ottla_core.cluster.etcd.connection import RETRY_DELAY_S
from ottla_core.cluster.etcd.errors import EtcdError, WriteOutcomeUnknown
from ottla_core.cluster.etcd.key_value import KeyValue
from ottla_core.cluster.membership.election import Leadership
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.errors import NotController, OttlaError

COMPARES_PER_TRANSACTION = op.MAX_TRANSACTION_OPERATIONS - 1
"""One more is that of the election key. Each write has one, and so has each registration that writes depend on."""

NO_FENCE = 0
"""An attempt may still be carried out, and the fence is to be moved first; keys have revisions above it."""


class WriteConflict(OttlaError):
    """Keys, or others that they depend on, were not what the writer took them for.

    Attributes:
        keys: the keys that were to be written.
        revision: a revision of this cluster's keys at which they had changed; who waits for it sees why.
    """

    def __init__(self, keys: frozenset[str], revision: int) -> None:
        others = f" and {len(keys) - 1} others have" if len(keys) > 1 else " has"
        super().__init__(f"{min(keys)}{others} changed in the meantime, or what it depends on has")
        self.keys = keys
        self.revision = revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A put or, with `value` None, a deletion of a key that was last written at `replaces` (`ABSENT`: never).

    Attributes:
        replaces: None where the state does not keep when the key was written, as of keys that only the controller
            writes: then the fence alone keeps others from having changed it since this term decided.
        depends_on: other keys with the revisions at which they were created; they must not have gone or come anew.
        complete_below: a prefix and the revision after which no key may have been created below it.
    """

    key: str
    value: bytes | None
    replaces: int | None
    depends_on: tuple[tuple[str, int], ...] = ()
    complete_below: tuple[str, int] | None = None


class FencedWriter:
    """Writes for the duration of one term of leadership.

    Attributes:
        written_revision: no transaction that succeeded has a later revision, once the writer is settled.
    """

    def __init__(self, etcd: EtcdClient, key_space: KeySpace, leadership: Leadership) -> None:
        self._etcd = etcd
        self._election_key = key_space.controller
        self._leadership = leadership
        self._fence = NO_FENCE
        self.written_revision = 0

    async def write(self, writes: Sequence[Write]) -> int:
        """Carry out writes in order, in transactions that are as large as etcd takes.

        What fits into one transaction is atomic; of more, any number of leading ones may have happened when this
        raises.

        Returns:
            The revision of the last transaction; 0 if there was nothing to write.

        Raises:
            NotController: the term is over.
            WriteConflict: a key has changed since it was read.
            EtcdError: etcd refuses.
        """
        revision = 0
        for chunk in _chunks(writes):
            revision = await self._write_chunk(chunk)
        return revision

    async def write_each(self, writes: Sequence[Write]) -> tuple[int, WriteConflict | None]:
        """Carry out writes that have nothing to do with each other: one that conflicts keeps no other from happening.

        Returns:
            The revision of the last transaction, 0 if there was none; and the conflicts, if there were any.

        Raises:
            NotController: the term is over.
            EtcdError: etcd refuses.
        """
        revision, conflicting = 0, frozenset[str]()
        for chunk in _chunks(writes):
            left = chunk
            while left:
                try:
                    revision = await self._write_chunk(left)
                    break
                except WriteConflict as conflict:
                    conflicting |= conflict.keys
                    revision = conflict.revision
                    left = [write for write in left if write.key not in conflict.keys]
        return revision, WriteConflict(conflicting, revision) if conflicting else None

    async def settle(self) -> None:
        """See that what was attempted before has happened or never will; who goes by the keys must know which.

        Attempts that nobody waits for may be those of a change that failed, or of an earlier term under the same
        election key.

        Raises:
            NotController: the term is over.
            EtcdError: etcd refuses.
        """
        if self._fence == NO_FENCE:
            self.written_revision = max(self.written_revision, await self._move_fence())

    async def _write_chunk(self, chunk: Sequence[Write]) -> int:
        answer_was_lost = False
        while True:
            await self.settle()  # or a lost attempt could happen after all that follows
            fence, self._fence = self._fence, NO_FENCE  # whatever ends the attempt without an answer
            try:
                result = await self._attempt(chunk, fence)
            except WriteOutcomeUnknown:
                answer_was_lost = True
                continue
            except EtcdError:  # it never happens; and a full etcd, which refuses the touch, takes deletions
                self._fence = fence
                raise
            self._fence = fence
            if result.succeeded:
                self.written_revision = max(self.written_revision, result.revision)
                return result.revision
            leader, *found = result.reads
            if self._checked(leader).mod_revision != fence:
                self._fence = max(self._fence, self._checked(leader).mod_revision)
                continue
            if answer_was_lost and _has_happened(chunk, found):
                self.written_revision = max(self.written_revision, self._fence)
                return max((entry.mod_revision for entry in found[: len(chunk)] if entry), default=fence)
            # The keys' own revisions do not tell when a key went. A later one does, and it reaches every watch.
            raise WriteConflict(_conflicting(chunk, found), await self._move_fence())

    async def _attempt(self, chunk: Sequence[Write], fence: int) -> TransactionResult:
        self._check_current()
        dependencies = _dependencies(chunk)
        return await self._etcd.transaction(
            [
                op.modified_at(self._election_key, fence),
                *(op.modified_at(write.key, write.replaces) for write in chunk if write.replaces is not None),
                *(op.created_at(key, revision) for key, revision in dependencies),
                *(op.none_created_after(*w.complete_below) for w in chunk if w.complete_below is not None),
            ],
            [op.delete(w.key) if w.value is None else op.put(w.key, w.value) for w in chunk],
            [
                op.read(self._election_key),
                *(op.read(write.key) for write in chunk),
                *(op.read(key) for key, _ in dependencies),
            ],
        )

    async def _move_fence(self) -> int:
        """Write the election key anew, unchanged, and return the revision of that.

        Everything that was attempted before has happened by then, or fails its compare. A touch whose own answer is
        lost may be carried out late; the attempt that finds the fence elsewhere goes by what it finds.
        """
        while True:
            self._check_current()
            try:
                result = await self._etcd.transaction(
                    [op.created_at(self._election_key, self._leadership.epoch)],
                    [op.touch(self._election_key)],
                    [op.read(self._election_key)],
                )
            except WriteOutcomeUnknown:
                await asyncio.sleep(RETRY_DELAY_S)
                continue
            if not result.succeeded:
                self._checked(result.reads[0])
            self._fence = max(self._fence, result.revision)
            return result.revision

    def _check_current(self) -> None:
        if not self._leadership.is_current():
            raise NotController("this controller does not lead any more")

    def _checked(self, leader: KeyValue | None) -> KeyValue:
        if leader is None or leader.create_revision != self._leadership.epoch:
            self._leadership.give_up()
            raise NotController("another controller has taken over")
        return leader


def _chunks(writes: Sequence[Write]) -> Iterator[Sequence[Write]]:
    """Yield the writes in order, as many at a time as one transaction can compare."""
    chunk: list[Write] = []
    dependencies: set[tuple[str, int]] = set()
    for write in writes:
        if len(chunk) + 1 + len(dependencies.union(write.depends_on)) > COMPARES_PER_TRANSACTION:
            yield chunk
            chunk, dependencies = [], set()
        chunk.append(write)
        dependencies.update(write.depends_on)
    if chunk:
        yield chunk


def _dependencies(chunk: Sequence[Write]) -> list[tuple[str, int]]:
    return sorted({dependency for write in chunk for dependency in write.depends_on})


def _has_happened(chunk: Sequence[Write], found: Sequence[KeyValue | None]) -> bool:
    """Return whether the keys hold what was written, in place of what the writes replace."""
    return all(
        entry is None
        if write.value is None
        else entry is not None and entry.value == write.value and entry.mod_revision != write.replaces
        for write, entry in zip(chunk, found, strict=False)
    )


def _conflicting(chunk: Sequence[Write], found: Sequence[KeyValue | None]) -> frozenset[str]:
    """Return the keys that were not at the revision to be replaced, or that depend on one created at another."""
    dependencies = _dependencies(chunk)
    changed = {
        dependency
        for dependency, entry in zip(dependencies, found[len(chunk) :], strict=True)
        if (entry.create_revision if entry is not None else op.ABSENT) != dependency[1]
    }
    keys = frozenset(
        write.key
        for write, entry in zip(chunk, found, strict=False)
        if write.replaces not in (None, entry.mod_revision if entry is not None else op.ABSENT)
        or not changed.isdisjoint(write.depends_on)
    )
    keys = keys or frozenset(write.key for write in chunk if write.complete_below is not None)
    assert keys, "a compare has failed"
    return keys
