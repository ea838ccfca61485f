"""A produce that waits until its records are as safe as producer and topic ask for.

With acks=all that is when every in-sync replica has them (the high watermark has passed them); where `flush.messages`
makes a flush due, when the disk has them here. All partitions of a request wait side by side, and the answer leaves
when the last one is settled. Replication that takes longer than the producer's timeout is answered REQUEST_TIMED_OUT:
the records are in the log then, and nobody can tell whether they will stay.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ottla_broker.outcome import Parts
from ottla_broker.partition import Partition
from ottla_broker.partition_context import ReplicationNotice
from ottla_core.background import start_detached
from ottla_core.errors import KafkaError, RequestTimedOut
from ottla_core.observe.request_errors import count_error
from ottla_core.wire.produce_response import PartitionProduced

PRODUCE_KEY = 0


@dataclass(slots=True, eq=False)
class PendingAck:
    """Records in a log whose outcome must not be told yet.

    Attributes:
        outcomes: the list in which the outcome stands.
        position: where in it.
        partition: whose log it is.
        end_offset: everything below has to be safe.
        leader_epoch: in which the records were appended.
        replicated: whether all in-sync replicas must have it.
        flushed: whether the disk must have it.
    """

    outcomes: list[PartitionProduced]
    position: int
    partition: Partition
    end_offset: int
    leader_epoch: int
    replicated: bool
    flushed: bool
    notice: ReplicationNotice | None = field(default=None, init=False)

    def fail(self, error: KafkaError) -> None:
        """Put an error in the place of the outcome."""
        count_error(PRODUCE_KEY, error.code)
        index = self.outcomes[self.position].partition
        self.outcomes[self.position] = PartitionProduced(index, error.code, error_message=error.message)


class DelayedProduce:
    """A waiting produce; await `answered`.

    Args:
        pending: what has to become safe.
        timeout_s: after how many seconds replication is given up.
        answer: encodes the response.
    """

    __slots__ = ("_answer", "_flushes", "_open", "_timer", "_unreplicated", "answered")

    def __init__(self, pending: Sequence[PendingAck], timeout_s: float, answer: Callable[[], Parts | None]) -> None:
        loop = asyncio.get_running_loop()
        self._answer = answer
        self.answered: asyncio.Future[Parts | None] = loop.create_future()
        self._unreplicated: set[PendingAck] = {each for each in pending if each.replicated}
        # The conditions that are not met yet, and one more until all are counted.
        self._open = 1 + len(self._unreplicated) + sum(each.flushed for each in pending)
        self._timer = loop.call_later(timeout_s, self._expire) if self._unreplicated else None
        self._flushes = [start_detached("flush of a produce", self._flush(each)) for each in pending if each.flushed]
        self.answered.add_done_callback(self._forget)
        for each in tuple(self._unreplicated):
            each.notice = partial(self._on_replicated, each)
            each.partition.when_replicated(each.end_offset, each.notice, leader_epoch=each.leader_epoch)
        self._settle()

    def _on_replicated(self, pending: PendingAck, error: KafkaError | None) -> None:
        self._unreplicated.discard(pending)
        pending.notice = (
            None  # it refers back, and the garbage collector should have nothing to do with every produce
        )
        if error is not None:
            pending.fail(error)
        self._settle()

    async def _flush(self, pending: PendingAck) -> None:
        try:
            await pending.partition.log.flushed(pending.end_offset)
        except KafkaError as error:
            pending.fail(error)
        except Exception:
            pending.fail(KafkaError("the flush failed unexpectedly; the broker's log says why"))
            raise
        finally:
            self._settle()

    def _expire(self) -> None:
        for pending in tuple(self._unreplicated):
            self._give_up(pending)
            name = pending.partition.topic_partition
            self._on_replicated(
                pending, RequestTimedOut(f"{name} was not replicated up to {pending.end_offset} in time")
            )

    def _give_up(self, pending: PendingAck) -> None:
        assert pending.notice is not None
        pending.partition.no_longer_wait(pending.notice)

    def _settle(self) -> None:
        """Answer if this was the last condition."""
        self._open -= 1
        if self._open or self.answered.done():
            return
        try:
            self.answered.set_result(self._answer())
        except Exception as error:  # noqa: BLE001  the connection reports it
            self.answered.set_exception(error)

    def _forget(self, _: object) -> None:
        """Stop waiting, also when the connection was closed and the future cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        for pending in self._unreplicated:
            self._give_up(pending)
        self._unreplicated.clear()
        for flush in self._flushes:
            flush.cancel()
