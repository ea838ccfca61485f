"""Fetched batches that are written at once: a follower is given many, and a system call for each would cost most.

A run begins where the log ends and has no gap in the bytes. What may join it is decided so that segments roll where
they would if the batches were appended one by one.
"""

from collections.abc import Iterator
from typing import Protocol

from ottla_broker.log.partition.local_log import LocalLog
from ottla_core.errors import InvalidRecord, KafkaError, UnknownLeaderEpoch
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.record_batch import Buffer, RecordBatchHeader, iterate_batches


class FollowerLog(Protocol):
    """What the rules need of the log."""

    topic_partition: TopicPartition
    log_start_offset: int
    log_end_offset: int

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything and go on at `offset`."""


class BatchRun:
    """Consecutive batches of one buffer.

    Attributes:
        headers: one of each batch.
        end_offset: where the log will end.
    """

    __slots__ = ("_begin", "_buffer", "_end", "end_offset", "headers")

    def __init__(self, buffer: memoryview, end_offset: int) -> None:
        self._buffer = buffer
        self._begin = self._end = 0
        self.end_offset = end_offset
        self.headers: list[RecordBatchHeader] = []

    @property
    def batches(self) -> memoryview:
        """The bytes of all batches."""
        return self._buffer[self._begin : self._end]

    def add(self, header: RecordBatchHeader) -> None:
        """Take the batch that follows in the buffer."""
        self._end += header.size_bytes
        self.end_offset = header.next_offset
        self.headers.append(header)

    def skip(self, header: RecordBatchHeader) -> None:
        """Pass over the batch that follows in the buffer; the run is empty."""
        self._begin = self._end = self._end + header.size_bytes

    def clear(self) -> None:
        """Begin anew behind the batches that were written."""
        self._begin = self._end
        self.headers.clear()

    def may_take(self, header: RecordBatchHeader, local: LocalLog, now_ms: int) -> bool:
        """Return whether a batch certainly belongs into the same segment as those of the run."""
        if not self.headers:
            return True
        size = self._end - self._begin + header.size_bytes
        return local.may_take_run(len(self.headers) + 1) and not local.must_roll(
            size, header.last_offset, header.max_timestamp, now_ms
        )


def runs_to_append(
    log: FollowerLog, local: LocalLog, records: Buffer, now_ms: int, leader_epoch: int
) -> Iterator[BatchRun]:
    """Yield the runs that fetched batches consist of; each must be appended before the next is asked for.

    Batches that are in the log already are passed over. The first one of an empty log may begin before it, since the
    leader's log may start within a batch; the log is made to begin there. A batch of a later epoch than the leader's
    own is none that this leader has answered with: it follows another one by now, and has cut its log in between.

    Raises:
        UnknownLeaderEpoch: a batch is of a later leader epoch; the runs yielded before hold all that come before it.
        CorruptMessage, UnsupportedForMessageFormat, InvalidRecord: a batch is damaged or out of order; the runs
            yielded before hold all that come before it.
    """
    run = BatchRun(memoryview(records), log.log_end_offset)
    try:
        for header, _ in iterate_batches(records):
            if header.leader_epoch > leader_epoch:
                raise UnknownLeaderEpoch(
                    f"A batch fetched for {log.topic_partition} is of leader epoch {header.leader_epoch},"
                    f" later than its leader's, which is {leader_epoch}"
                )
            if header.base_offset < run.end_offset:
                if header.last_offset < run.end_offset and not run.headers:
                    run.skip(header)
                    continue
                _begin_within(log, run, header, now_ms)
            if not run.may_take(header, local, now_ms):
                yield run
                run.clear()
            run.add(header)
    except KafkaError:
        if run.headers:
            yield run
        raise
    if run.headers:
        yield run


def _begin_within(log: FollowerLog, run: BatchRun, header: RecordBatchHeader, now_ms: int) -> None:
    """Have a log that is empty begin where a batch begins that its end lies within."""
    if run.headers or log.log_start_offset != log.log_end_offset:
        raise InvalidRecord(
            f"A batch fetched for {log.topic_partition} starts at {header.base_offset},"
            f" within the log that ends at {run.end_offset}"
        )
    log.truncate_fully_and_start_at(header.base_offset, now_ms)
