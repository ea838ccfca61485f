"""A leader epoch begins in a log; behind a promotion, the producers so far are those of another cluster.

Each cluster draws ids of producers for itself. A producer of this one that has the id of one of the other would be
refused, or worse, be told that its records are stored already.
"""

from pathlib import Path
from typing import Final, Protocol

import structlog

from ottla_broker.log.files.leader_epoch_checkpoint import LeaderEpochs
from ottla_broker.log.flushing.flush import LogFlush
from ottla_broker.log.producers.producer_snapshot import snapshot_path, write_snapshot
from ottla_broker.log.producers.producer_state import ProducerStates
from ottla_core.promotion import PROMOTION_LEAP

_logger: Final = structlog.get_logger("log")


class EpochedLog(Protocol):
    """What the beginning of an epoch changes of a log."""

    directory: Path
    leader_epochs: LeaderEpochs
    producers: ProducerStates


def begin_epoch(log: EpochedLog, flush: LogFlush, epoch: int, start_offset: int) -> None:
    """Note where an epoch begins that is later than all in the log."""
    latest = log.leader_epochs.latest  # one that retention had emptied before an upgrade knows none after a crash
    if epoch - latest >= PROMOTION_LEAP and (latest >= 0 or len(log.producers)):
        # Told by the epochs afterwards, too, but not where the former one ends where the log begins.
        _forget_producers(log, flush, start_offset, are_of_source=latest >= 0)
    log.leader_epochs.assign(epoch, start_offset)


def _forget_producers(log: EpochedLog, flush: LogFlush, offset: int, *, are_of_source: bool) -> None:
    """Know no producers from an offset on, and have a snapshot that says so.

    One at this offset may know them; and the batches before, which tell a start as well, may be gone by then.
    """
    log.producers.clear(are_of_source=are_of_source)
    path = snapshot_path(log.directory, offset)
    try:
        write_snapshot(path, log.producers, sync=False)
    except OSError as error:
        _logger.warning("no snapshot without producers could be written", file=str(path), problem=str(error))
    else:
        flush.add_snapshot(path)
