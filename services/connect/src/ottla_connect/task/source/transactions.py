"""Runs a source task in transactions: its records and their offsets are committed together (KIP-618).

A transaction begins with the first record and ends where `Boundaries` says. Then everything that was sent is
acknowledged, the offsets of it are written into the offsets topic by the same producer, and both are committed. So
the offsets that a successor finds are those of exactly the records that readers of committed data see. If that fails,
the transaction is aborted and the task fails: the next start goes on from what is committed.

Before anything else, all tasks that the connector had before are fenced, by the leader; then the task takes over its
own transactional id, which fences a former start of it; then it makes sure that nobody has given the connector other
tasks meanwhile, who would not know of this one. Only a task with a lease does so, or a worker that was paused would
fence those who have taken its tasks over.

The class stands in the places of the sender and the commits of a task without transactions, around the same sender.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer

from ottla_connect.processes.messages import TransactionCheck
from ottla_connect.state.key_partition import partition_of
from ottla_connect.state.offset_records import SourcePartition, source_partition, value_of
from ottla_connect.task.control import Control, NoTransactions
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.error_handler import Interrupted
from ottla_connect.task.source.boundaries import Boundaries, End
from ottla_connect.task.source.in_flight import CommittableOffset
from ottla_connect.task.source.sender import ProducerFailed, Sender
from ottla_connect.task.transactional_client import CallWatch, failure_of, patiently
from ottla_sdk import ConnectError, RetriableError, SourceRecord, SourceTask

FLUSH_SLICE_S = 0.5
LEASE_WAIT_S = 1.0
ABORT_WITHIN_S = 3.0
TOPIC_TIMEOUT_S = 30.0
NO_OFFSETS_TOPIC = "the offsets topic {topic} cannot be found now"

ResultT = TypeVar("ResultT")

log = logging.getLogger(__name__)


class OffsetsTopicUnknown(RetriableError):
    """The brokers do not say how many partitions the offsets topic has."""


class Transactions:
    """Sends records in transactions, with their offsets.

    Args:
        name: the connector's name.
        task: the plugin's task.
        sender: sends records by `producer`.
        producer: initialized by `start`.
        transactional_id: the producer's.
        offsets_topic: into which offsets go.
        boundaries: say where transactions end.
        control: to the worker.
        measures: readings.
        calls: watches those that may hang.
    """

    def __init__(
        self,
        *,
        name: str,
        task: SourceTask[Any],
        sender: Sender,
        producer: Producer,
        transactional_id: str,
        offsets_topic: str,
        boundaries: Boundaries,
        control: Control,
        measures: TaskMeasures,
        calls: CallWatch,
    ) -> None:
        self._name = name
        self._task = task
        self._sender = sender
        self._producer = producer
        self._id = transactional_id
        self._offsets_topic = offsets_topic
        self._boundaries = boundaries
        self._control = control
        self._measures = measures
        self._calls = calls
        self._partitions = 0
        self._keys: dict[SourcePartition, list[bytes]] = {}
        self._uncommitted: dict[str, CommittableOffset] = {}
        self._is_open = False
        self._is_committing = False
        self._size = 0
        self._has_begun = False
        self._is_broken = False
        self._give_up_s = float("inf")

    def start(self) -> None:
        """Fence all who wrote before, and make sure that the task may.

        Raises:
            NoTransactions: it may not now.
            Interrupted: the task is to stop.
            ConnectError: the brokers refuse, for good or for now.
        """
        try:
            self._control.check_transactions(TransactionCheck.FORMER_TASKS_ARE_FENCED)
            self._guarded(lambda: self._patiently(self._initialize))
            self._control.check_transactions(TransactionCheck.IS_CURRENT)
        except NoTransactions:
            if self._control.stopping:
                raise Interrupted from None
            raise
        self._partitions = self._count_partitions()
        self._has_begun = True
        self._boundaries.ended(time.monotonic())

    # As a sender.

    def send(self, records: Sequence[SourceRecord]) -> None:
        """Send a batch, and end transactions within it and behind it; raises what a `Sender` does, and `commit`."""
        for part, end in self._boundaries.parts(records):
            self._begin()
            self._guarded(partial(self._sender.send, part))
            self._size += len(part)
            self._end(end)
        self._end(self._boundaries.end_of_batch(time.monotonic()))

    def serve(self) -> None:
        """Hear what was acknowledged meanwhile; raises what a `Sender` does."""
        self._guarded(self._sender.serve)

    def flush(self, timeout_s: float) -> int:
        """Do nothing: a commit waits for all records. Returns 0."""
        return 0

    def close(self) -> None:
        """Give up what is not committed."""
        self._sender.close()

    # As commits.

    def advance(self) -> None:
        """Commit, if the time has come; raises what `commit` does."""
        if self._boundaries.is_due(time.monotonic()):
            self.commit()

    def end_of_empty_batch(self) -> None:
        """End the transaction if that was said in a `poll` without records; raises what `commit` does.

        Left for the next batch, an abort would take that batch's records along, and their offsets be committed.
        """
        self._end(self._boundaries.end_of_batch(time.monotonic()))

    def rest(self) -> None:
        """Leave no transaction open while the task is paused; raises what `commit` does."""
        if self._boundaries.ends_at_rest:
            self.commit()

    def finish(self, timeout_s: float) -> bool:
        """Commit what was sent, unless the task alone may say that; returns whether nothing is left out."""
        if self._is_broken or not self._has_begun:
            return True
        self._give_up_s = time.monotonic() + timeout_s
        if not self._boundaries.ends_at_rest:
            left = self._is_open
            if not self._is_committing:
                self._abort()
                return not left
        try:
            self.commit()
        except Interrupted:
            return False
        return True

    def give_up(self) -> None:
        """Abort the open transaction, as the task has failed: another start goes on from what is committed."""
        self._is_broken = True
        self._abort()

    def commit(self) -> None:
        """Commit everything that was sent, with its offsets.

        Raises:
            TransactionAborted: it was aborted, and has to be repeated.
            TaskFenced: somebody else has the task's transactional id.
            Interrupted: the task is to stop, and there is no time left; another call goes on with this.
            ConnectError: the producer cannot go on.
        """
        began_s = time.monotonic()
        self._settle()
        if self._is_open or self._uncommitted:
            try:
                self._guarded(self._commit)
            except Exception:
                self._measures.commit_failures += 1
                raise
            self._measures.transactions.add(self._size)
            self._measures.commits.add((time.monotonic() - began_s) * 1000)
            self._size = 0
        self._boundaries.ended(time.monotonic())
        committed, self._uncommitted = list(self._uncommitted.values()), {}
        self._tell_committed(committed)

    def _commit(self) -> None:
        if not self._is_committing:
            offsets = list(self._uncommitted.values())
            self._learn_keys(offsets)
            self._begin()
            for each in offsets:
                self._write_offset(each)
            self._is_committing = True  # nothing else may be done with the producer until it has succeeded
        self._patiently(self._calls.watched(self._producer.commit_transaction))
        self._is_open = self._is_committing = False

    def _tell_committed(self, offsets: Sequence[CommittableOffset]) -> None:
        if not offsets:
            return
        try:
            self._task.committed(offsets)
        except Exception:
            log.exception("the task could not take note of committed offsets")

    def _end(self, end: End) -> None:
        if end is End.ABORT:
            self._drop()
        if end is not End.NONE:
            self.commit()

    def _drop(self) -> None:
        """Abort as the task wants it; the offsets are left to be committed, or the same records would come again."""
        # Acknowledgements are waited for before: those of an aborted transaction do not come.
        self._settle()
        if not self._is_open:
            log.warning("there is no transaction that could be aborted, as the task wants")
            return
        self._guarded(lambda: self._patiently(self._calls.watched(self._producer.abort_transaction)))
        self._is_open = False
        self._size = 0

    def _begin(self) -> None:
        if not self._is_open:
            self._guarded(self._producer.begin_transaction)
            self._is_open = True

    def _settle(self) -> None:
        """Wait until everything is acknowledged that was sent, and keep the offsets of it."""
        while self._guarded(lambda: self._sender.flush(FLUSH_SLICE_S)):
            self.serve()
            if self._is_given_up():
                raise Interrupted
        self.serve()
        self._uncommitted.update(self._sender.take_committable())

    def _learn_keys(self, offsets: Sequence[CommittableOffset]) -> None:
        """Ask under which keys offsets stand; that is asked once, as no other task has these source partitions."""
        new = [each.partition for each in offsets if self._source(each) not in self._keys]
        if new:
            for partition, keys in zip(new, self._control.read_offset_keys(new), strict=True):
                self._keys[source_partition(self._name, partition)] = keys

    def _source(self, offset: CommittableOffset) -> SourcePartition:
        return source_partition(self._name, offset.partition)

    def _write_offset(self, offset: CommittableOffset) -> None:
        source = self._source(offset)
        key, *others = self._keys[source]
        self._produce(key, value_of(offset.offset))
        for other in others:
            self._produce(other, None)
        self._keys[source] = [key]

    def _produce(self, key: bytes, value: bytes | None) -> None:
        partition = partition_of(key, self._partitions)
        while True:
            try:
                self._producer.produce(self._offsets_topic, value=value, key=key, partition=partition)
            except BufferError:
                self._producer.poll(FLUSH_SLICE_S)
            else:
                return

    def _abort(self) -> None:
        """Abort the open transaction if that is possible soon; otherwise the task's successor does it."""
        if not self._is_open:
            return
        self._is_open = False
        give_up_s = time.monotonic() + ABORT_WITHIN_S
        try:
            patiently(
                self._calls.watched(self._producer.abort_transaction),
                is_given_up=lambda: time.monotonic() > give_up_s,
            )
        except (KafkaException, Interrupted) as error:
            log.warning("the open transaction is left to the task's next start: %s", error.__cause__ or error)

    def _initialize(self, timeout_s: float) -> None:
        while not self._control.leased:
            if self._control.stopping:
                raise Interrupted
            self._control.await_change(LEASE_WAIT_S)
        self._calls.watched(self._producer.init_transactions)(timeout_s)

    def _count_partitions(self) -> int:
        def ask() -> int:
            found = self._producer.list_topics(self._offsets_topic, timeout=TOPIC_TIMEOUT_S)
            return len(found.topics[self._offsets_topic].partitions)

        try:
            count = ask()
        except KafkaException as error:
            raise OffsetsTopicUnknown(NO_OFFSETS_TOPIC.format(topic=self._offsets_topic)) from error
        if not count:
            raise OffsetsTopicUnknown(NO_OFFSETS_TOPIC.format(topic=self._offsets_topic))
        return count

    def _patiently(self, call: Callable[[float], object]) -> None:
        patiently(call, is_given_up=self._is_given_up)

    def _is_given_up(self) -> bool:
        return time.monotonic() > self._give_up_s or (self._control.stopping and self._give_up_s == float("inf"))

    def _guarded(self, call: Callable[[], ResultT]) -> ResultT:
        """Make a call; what its failure means for the task is raised."""
        try:
            return call()
        except (KafkaException, SystemError) as error:
            self._is_broken = True
            raise self._failure(_kafka_error(error)) from error
        except ProducerFailed as failed:
            self._is_broken = True
            if failed.error is None:
                raise
            raise self._failure(failed.error) from failed
        except ConnectError:
            self._is_broken = True
            raise

    def _failure(self, error: KafkaError) -> Exception:
        if error.code() == KafkaError._FATAL:  # noqa: SLF001 - public
            try:  # that there was a fatal error is all it says; what it was is raised when it is asked for
                self._sender.serve()
            except (KafkaException, SystemError) as said:
                error = _kafka_error(said)
            except ProducerFailed as said:
                error = said.error or error
            except ConnectError as other:
                log.debug("beside the failure: %s", other)
        return failure_of(error, self._id)


def _kafka_error(error: BaseException) -> KafkaError:
    """Return what librdkafka has said.

    A fatal error is raised by its next call, whatever that is, and becomes a SystemError where a callback is called
    after that.
    """
    said = error.__cause__ if isinstance(error, SystemError) else error
    if not isinstance(said, KafkaException):
        raise error
    found = said.args[0]
    assert isinstance(found, KafkaError)
    return found
