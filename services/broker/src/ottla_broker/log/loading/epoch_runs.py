"""Which leader epochs a log's batches are of: collected while they are walked."""

from collections.abc import Iterable, Iterator

from ottla_broker.log.files.leader_epoch_checkpoint import EpochRun
from ottla_broker.log.segments.segment import LogSegment
from ottla_core.wire.record_batch import RecordBatchHeader


class EpochRuns:
    """Neighbouring batches of the same epoch, run by run."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[EpochRun] = []

    def __iter__(self) -> Iterator[EpochRun]:
        return iter(self._runs)

    def add(self, header: RecordBatchHeader) -> None:
        """Take in the next batch; one without an epoch belongs to no run."""
        epoch = header.leader_epoch
        if epoch < 0:
            return
        if self._runs and self._runs[-1].epoch == epoch:
            self._runs[-1] = EpochRun(epoch, self._runs[-1].first_offset, header.last_offset)
        else:
            self._runs.append(EpochRun(epoch, header.base_offset, header.last_offset))


def runs_in(segments: Iterable[LogSegment]) -> EpochRuns:
    """Return the runs of whole segments; raises OSError, and CorruptMessage if one is damaged."""
    runs = EpochRuns()
    for segment in segments:
        for _, header in segment.walk(0):
            runs.add(header)
    return runs
