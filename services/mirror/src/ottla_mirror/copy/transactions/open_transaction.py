"""A transaction as the target sees it: who writes it, under which sequences, and what the coordinator is asked.

What may pass is asked again, in the same transaction, until it has lasted for half of the time after which the target
would abort it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NoReturn

from kio.schema.errors import ErrorCode

from ottla_core.client.errors import Unreachable
from ottla_core.errors import OttlaError
from ottla_core.wire.raw_produce import ProduceOutcome
from ottla_core.wire.record_batch import Buffer, increment_sequence
from ottla_core.wire.records import Record, encode_batch
from ottla_mirror.copy.copy_settings import TransactionSettings
from ottla_mirror.copy.refusals import Meaning, meaning_of
from ottla_mirror.copy.transactions.transaction_requests import (
    TopicPartition,
    TransactionFailed,
    TransactionRequests,
)
from ottla_mirror.copy.transactions.transaction_rules import PATIENCE_SHARE, Answer, Producer, meaning_of_answer

AGAIN_PAUSE_S: Final = 0.02
"""Before the first repetition; mostly the transaction before is still being ended."""


class OpenTransaction:
    """The transactions of one id, one after the other.

    Args:
        transactional_id: the id.
        requests: of the target.
        sizes: of transactions.
        pause_s_max: the longest pause before something is asked again.

    Attributes:
        id: the id.
        producer: who writes.
    """

    def __init__(
        self,
        transactional_id: str,
        requests: TransactionRequests,
        sizes: TransactionSettings,
        *,
        pause_s_max: float,
    ) -> None:
        self.id = transactional_id
        self.producer = Producer(-1, -1)
        self._requests = requests
        self._sizes = sizes
        self._pause_s_max = pause_s_max
        self._loop = asyncio.get_running_loop()
        self._begun_s = 0.0
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def age_s(self) -> float:
        """How long it has lasted."""
        return self._loop.time() - self._begun_s

    def write_as(self, producer: Producer) -> None:
        """Go on as another producer, whose sequences begin at 0."""
        self.producer = producer
        self._sequences.clear()

    def begin(self) -> None:
        """Begin the next transaction; the target hears of it with what is written."""
        self._begun_s = self._loop.time()

    def next_sequence(self, to: TopicPartition) -> int:
        """Return the sequence of the next record of a partition."""
        return self._sequences.get(to, 0)

    def set_next_sequence(self, to: TopicPartition, sequence: int) -> None:
        """Go on at this sequence."""
        self._sequences[to] = sequence

    async def pause(self, reason: str, pauses: int) -> None:
        """Wait before the same is asked again.

        Args:
            reason: why it has to be.
            pauses: that there were before.

        Raises:
            TransactionFailed: it has been tried for long enough.
        """
        if self.age_s >= self._sizes.timeout_ms / 1000 * PATIENCE_SHARE:
            raise TransactionFailed(f"the transaction could not go on for long: {reason}")
        await asyncio.sleep(min(AGAIN_PAUSE_S * 2 ** min(pauses, 16), self._pause_s_max))

    async def add(self, partitions: list[TopicPartition]) -> None:
        """Add partitions, up to version 1.

        Raises:
            TransactionFailed: that is not possible.
        """
        await self._asked("given partitions", lambda: self._requests.add(self.id, self.producer, partitions))

    async def commit(self) -> None:
        """Commit.

        Raises:
            TransactionFailed: it is not committed, or nobody says so.
        """
        following: list[Producer | None] = [None]

        async def end() -> ErrorCode:
            code, following[0] = await self._requests.end(self.id, self.producer, commits=True)
            return code

        await self._asked("committed", end)
        if following[0] is not None:
            self.write_as(following[0])

    async def abort(self) -> bool:
        """Abort, if that succeeds at once; return whether it did."""
        with suppress(OttlaError):
            code, following = await self._requests.end(self.id, self.producer, commits=False)
            if code is ErrorCode.none:
                if following is not None:
                    self.write_as(following)
                return True
        return False

    async def produce(
        self, to: TopicPartition, leader_of: Callable[[], Awaitable[int]], records: list[Record]
    ) -> None:
        """Write records of our own, as one batch.

        Raises:
            OttlaError: they are not taken, or nobody takes them in time.
        """
        pauses, sequence = 0, self.next_sequence(to)
        batch = encode_batch(
            records,
            producer_id=self.producer.id,
            producer_epoch=self.producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        while True:
            try:
                code, reason = await self._produced(await leader_of(), to, batch)
            except Unreachable as error:
                code, reason = ErrorCode.network_exception, str(error)
            meaning = meaning_of(code)
            if meaning is Meaning.ACCEPTED:
                break
            if meaning is not Meaning.AGAIN:
                _fail(f"{to[0]} does not take what belongs to the transaction {self.id}", code)
            await self.pause(f"{to[0]}: {reason}", pauses)
            pauses += 1
        self.set_next_sequence(to, increment_sequence(sequence, len(records)))

    async def _produced(self, leader: int, to: TopicPartition, batch: Buffer) -> tuple[ErrorCode, str]:
        told: asyncio.Future[ProduceOutcome | str] = self._loop.create_future()

        def on_outcome(outcome: ProduceOutcome | str) -> None:
            if not told.done():
                told.set_result(outcome)

        self._requests.produce(leader, self.id, to, batch, on_outcome)
        found = await told
        if isinstance(found, str):
            return ErrorCode.network_exception, found
        return found.error_code, found.error_message or found.error_code.name

    async def _asked(self, what: str, ask: Callable[[], Awaitable[ErrorCode]]) -> None:
        """Ask the coordinator until it has done something.

        Raises:
            TransactionFailed: it does not, or did not in time.
        """
        pauses = 0
        while True:
            try:
                code = await ask()
                reason = code.name
            except Unreachable as error:
                code, reason = ErrorCode.network_exception, str(error)
            meaning = meaning_of_answer(code)
            if meaning is Answer.DONE:
                return
            if meaning is not Answer.AGAIN:
                _fail(f"the transaction {self.id} is not {what}", code)
            await self.pause(reason, pauses)
            pauses += 1


def _fail(what: str, code: ErrorCode) -> NoReturn:
    """Raise what an answer means from which a transaction does not recover."""
    is_taken = meaning_of_answer(code) is Answer.FENCED
    why = " (another worker has taken the partition, or the transaction has lasted too long)" if is_taken else ""
    raise TransactionFailed(f"{what}: {code.name}{why}", is_taken=is_taken)
