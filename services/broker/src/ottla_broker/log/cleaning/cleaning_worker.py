"""The process that compacts logs for a broker: a job per line comes in, and a line per result goes out.

It is a process of its own because a broker has one core and one interpreter. As a thread this work would hold the
interpreter for 5 ms at a time, and every request would wait for it at each of its system calls. The process gives
way to everything else on the machine, and its memory goes when it goes.

The broker ends it by closing its standard input, by killing it, or by dying; in each case the work stops before the
next chunk is read. So nothing writes into a log's directory for a broker that is no more.
"""

import os
import select
import sys
import time
from typing import Final

from ottla_broker.log.cleaning.cleaning_answers import CleaningEnded, encode_answer
from ottla_broker.log.compaction.segment_cleaning import CleanedSegment, CleaningJob, MappedKeys, clean
from ottla_core.errors import KafkaError

NICENESS: Final = 10
_INPUT: Final = 0
_OUTPUT: Final = 1
_READ_BYTES: Final = 64 * 1024
_WAIT_SECONDS_MAX: Final = 3600.0


class BrokerGone(Exception):
    """Nobody waits for results any more."""


class Throttle:
    """Keeps reading and writing to a rate, and notices when the broker goes."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._bytes_per_second = bytes_per_second
        self._spent_bytes = 0
        self._began_s = time.monotonic()
        self._input = select.poll()
        self._input.register(_INPUT, select.POLLIN)

    def spent(self, size_bytes: int) -> None:
        """Wait until so much more may have been read or written; raises BrokerGone."""
        self._spent_bytes += size_bytes
        early_s = 0.0
        if self._bytes_per_second is not None:
            early_s = self._began_s + self._spent_bytes / self._bytes_per_second - time.monotonic()
        # No job comes while one is under way, so anything that happens here is the end.
        if self._input.poll(min(max(0.0, early_s), _WAIT_SECONDS_MAX) * 1000):
            raise BrokerGone


def main() -> int:
    """Do jobs until the input ends; returns the exit code."""
    os.nice(NICENESS)
    pending = b""
    try:
        while data := os.read(_INPUT, _READ_BYTES):
            pending += data
            if pending.endswith(b"\n"):
                _do(CleaningJob.from_json(pending))
                pending = b""
    except (BrokerGone, BrokenPipeError):
        pass
    return 0


def _do(job: CleaningJob) -> None:
    try:
        for result in clean(job, Throttle(job.bytes_per_second)):
            _answer(result)
    except BrokenPipeError:
        raise
    except OSError as error:
        _answer(CleaningEnded(problem=str(error)))
    except KafkaError as error:
        _answer(CleaningEnded(problem=error.message, is_permanent=True))
    else:
        _answer(CleaningEnded())


def _answer(answer: MappedKeys | CleanedSegment | CleaningEnded) -> None:
    line = memoryview(encode_answer(answer))
    while line:
        line = line[os.write(_OUTPUT, line) :]


if __name__ == "__main__":
    sys.exit(main())
