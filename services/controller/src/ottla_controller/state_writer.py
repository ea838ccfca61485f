"""The only writer of cluster state in etcd (but for the members' own keys).

Every transaction compares the election key's create revision with this controller's epoch, so a deposed controller
cannot write, whatever it believes. Every write also says which revision of its key it replaces. Both together make
it safe to repeat a transaction whose answer was lost: if it has happened, the repetition fails its compares and
brings back what the keys hold now, which tells. An attempt that etcd carries out late fails its compares too.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla_core.cluster import etcd_operations as op
from ottla_core.cluster.election import Leadership
from ottla_core.cluster.etcd import EtcdClient, TransactionResult
from ottla_core.cluster.etcd_connection import RETRY_DELAY_S
from ottla_core.cluster.etcd_errors import WriteOutcomeUnknown
from ottla_core.cluster.key_value import KeyValue
from ottla_core.cluster.keys import KeySpace
from ottla_core.errors import NotController, OttlaError

COMPARES_PER_TRANSACTION = op.MAX_TRANSACTION_OPERATIONS - 1
"""One more is that of the election key. Each write has one, and so has each registration that writes depend on."""


class WriteConflict(OttlaError):
    """A key was not what the writer took it for; `revision` is one at which it had changed."""

    def __init__(self, key: str, revision: int) -> None:
        super().__init__(f"{key} has changed in the meantime")
        self.revision = revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A put or, with `value` None, a deletion of a key that was last written at `replaces` (`ABSENT`: never).

    Attributes:
        depends_on: other keys with the revisions at which they were created; they must not have gone or come anew.
    """

    key: str
    value: bytes | None
    replaces: int
    depends_on: tuple[tuple[str, int], ...] = ()


class StateWriter:
    """Writes for the duration of one term of leadership.

    Attributes:
        written_revision: the revision of the last transaction that succeeded; 0 before the first.
    """

    def __init__(self, etcd: EtcdClient, key_space: KeySpace, leadership: Leadership) -> None:
        self._etcd = etcd
        self._election_key = key_space.controller
        self._leadership = leadership
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
            revision = self.written_revision = await self._write_chunk(chunk)
        return revision

    async def _write_chunk(self, chunk: Sequence[Write]) -> int:
        answer_was_lost = False
        while True:
            try:
                result = await self._attempt(chunk)
            except WriteOutcomeUnknown:
                answer_was_lost = True
                await asyncio.sleep(RETRY_DELAY_S)
                continue
            if result.succeeded:
                return result.revision
            leader, *found = result.reads
            self._check_leader(leader)
            conflict = _first_difference(chunk, found)
            if conflict is not None or not answer_was_lost:
                raise WriteConflict(conflict or chunk[0].key, _newest(found))
            put_at = _newest(found)
            return put_at or await self._touch()

    async def _attempt(self, chunk: Sequence[Write]) -> TransactionResult:
        if not self._leadership.is_current():
            raise NotController("this controller does not lead any more")
        return await self._etcd.transaction(
            [
                op.created_at(self._election_key, self._leadership.epoch),
                *(op.modified_at(write.key, write.replaces) for write in chunk),
                *(op.created_at(key, revision) for key, revision in _dependencies(chunk)),
            ],
            [op.delete(w.key) if w.value is None else op.put(w.key, w.value) for w in chunk],
            [op.read(self._election_key), *(op.read(write.key) for write in chunk)],
        )

    async def _touch(self) -> int:
        """Return a revision after everything so far, by writing the election key anew unchanged.

        Deletions leave nothing behind that would tell at which revision they happened.
        """
        while self._leadership.is_current():
            try:
                result = await self._etcd.transaction(
                    [op.created_at(self._election_key, self._leadership.epoch)],
                    [op.touch(self._election_key)],
                    [op.read(self._election_key)],
                )
            except WriteOutcomeUnknown:
                await asyncio.sleep(RETRY_DELAY_S)
                continue
            if result.succeeded:
                return result.revision
            self._check_leader(result.reads[0])
        raise NotController("this controller does not lead any more")

    def _check_leader(self, leader: KeyValue | None) -> None:
        if leader is None or leader.create_revision != self._leadership.epoch:
            self._leadership.give_up()
            raise NotController("another controller has taken over")


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


def _first_difference(chunk: Sequence[Write], found: Sequence[KeyValue | None]) -> str | None:
    """Return the first key that does not hold what was written, or None if all do."""
    for write, entry in zip(chunk, found, strict=True):
        if (entry.value if entry is not None else None) != write.value:
            return write.key
    return None


def _newest(found: Sequence[KeyValue | None]) -> int:
    return max((entry.mod_revision for entry in found if entry is not None), default=0)
