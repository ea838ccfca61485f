"""What a simulation does depends on its seed alone: it asks no real clock and no real source of chance.

How long work takes differs on a busy machine, and what goes by it makes a seed another run there.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import pytest

from ottla_core.cluster.etcd import times
from tests.simulation import cluster
from tests.simulation.transactions import trial

SEED = 7
REAL: Final = {
    *(time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns),
    *(time.clock_gettime, time.clock_gettime_ns, time.process_time, time.sleep, os.urandom, os.getrandom),
}


@contextmanager
def calls_noted() -> Iterator[set[str]]:
    """Yield a set that meanwhile gets what asks a function of `REAL`, with the lines that did.

    How long etcd takes is counted by a real clock and shown as a metric; nothing goes by it.
    """
    found: set[str] = set()

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called in REAL and frame.f_code.co_filename != times.__file__:
            callers = [frame, frame.f_back or frame]
            places = " in ".join(f"{each.f_code.co_filename}:{each.f_lineno}" for each in callers)
            found.add(f"{called.__name__} at {places}")

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(former)


def one_with_transactions() -> None:
    with trial.surroundings() as directory:
        simulated = trial.TransactionTrial(SEED, directory)
        with calls_noted() as found:
            simulated.run()
    assert not found


def one_of_replication() -> None:
    simulated = cluster.SimulatedCluster(SEED)
    with calls_noted() as found:
        simulated.run()
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("run", [one_with_transactions, one_of_replication])
def test_a_simulation_asks_no_real_clock(run: Callable[[], None]) -> None:
    run()
