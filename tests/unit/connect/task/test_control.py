"""What the worker tells a task, and the lease without which it does nothing."""

import logging
import socket
import threading
import time

import pytest

from ottla_connect.processes.frames import FrameReader
from ottla_connect.processes.messages import (
    CommitOffsets,
    Lease,
    OffsetsCommitted,
    OffsetsRead,
    ReadOffsets,
    SetLogLevel,
    SetPaused,
    Stop,
    decode_from_process,
    encode,
)
from ottla_connect.state.offset_records import NotStorable
from ottla_connect.task.channel import Channel
from ottla_connect.task.control import EXIT_ORPHANED, Control, OffsetsUnavailable, WantedState
from ottla_core.clock import boot_time_s
from tests.support.eventually import eventually


class Worker:
    """The other end of a control's channel."""

    def __init__(self, **options):
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(10)
        self.ended: list[int] = []
        self.frames = FrameReader()
        self.control = Control(Channel(theirs), end=self.ended.append, **options)
        self.control.start()

    def send(self, message):
        self.socket.sendall(encode(message))

    def receive(self):
        while True:
            for text in self.frames.feed(self.socket.recv(65536)):
                return decode_from_process(text)


@pytest.fixture
def make_worker():
    made: list[Worker] = []

    def make(**options):
        made.append(Worker(**options))
        return made[-1]

    yield make
    for worker in made:
        worker.socket.close()
        eventually(lambda worker=worker: worker.ended, "the control has ended")


def stands(worker, wanted):
    eventually(lambda: worker.control.wanted_state() is wanted, f"it stands at {wanted}", within_s=10)


def test_a_lease_runs_out_while_the_machine_is_suspended(make_worker, monkeypatch):
    worker = make_worker(leased=True)
    worker.send(Lease(until_s=boot_time_s() + 100))
    eventually(lambda: worker.control.leased, "it has a lease")
    suspended_s = 1000.0
    clock_gettime = time.clock_gettime
    monkeypatch.setattr(
        time, "clock_gettime", lambda clock: clock_gettime(clock) + suspended_s * (clock == time.CLOCK_BOOTTIME)
    )
    assert not worker.control.leased


def test_a_task_without_a_lease_does_nothing(make_worker):
    worker = make_worker(leased=True)
    assert worker.control.wanted_state() is WantedState.UNLEASED
    worker.send(Lease(until_s=boot_time_s() + 100))
    stands(worker, WantedState.WORKING)


def test_a_lease_runs_out(make_worker):
    worker = make_worker(leased=True)
    worker.send(Lease(until_s=boot_time_s() + 0.2))
    stands(worker, WantedState.WORKING)
    stands(worker, WantedState.UNLEASED)


def test_an_older_lease_takes_nothing_away(make_worker):
    worker = make_worker(leased=True)
    worker.send(Lease(until_s=boot_time_s() + 100))
    worker.send(Lease(until_s=boot_time_s() - 1))
    worker.send(SetPaused(paused=True))
    stands(worker, WantedState.PAUSED)


def test_a_connector_needs_no_lease(make_worker):
    assert make_worker(leased=False).control.wanted_state() is WantedState.WORKING


def test_the_worker_pauses_and_resumes(make_worker):
    worker = make_worker(leased=False, paused=True)
    assert worker.control.wanted_state() is WantedState.PAUSED
    worker.send(SetPaused(paused=False))
    stands(worker, WantedState.WORKING)


def test_stop_ends_every_wait(make_worker):
    worker = make_worker(leased=True)
    threading.Timer(0.05, lambda: worker.send(Stop())).start()
    assert worker.control.wait(30)
    assert worker.control.wanted_state() is WantedState.STOPPING
    worker.control.await_change(30)


def test_a_change_that_came_before_is_not_waited_for(make_worker):
    worker = make_worker(leased=True)
    worker.send(Lease(until_s=boot_time_s() + 100))
    stands(worker, WantedState.WORKING)
    worker.control.await_change(30)


def test_offsets_are_asked_for(make_worker):
    worker = make_worker(leased=False)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(worker.control.read_offsets([{"f": 1}, {"f": 2}])))
    asking.start()
    asked = worker.receive()
    assert isinstance(asked, ReadOffsets)
    assert asked.partitions == [{"f": 1}, {"f": 2}]
    worker.send(OffsetsRead(request=asked.request, offsets=[{"o": 1}, None]))
    asking.join()
    assert list(answers[0]) == [{"o": 1}, None]


def test_offsets_that_cannot_be_read_are_an_error(make_worker):
    worker = make_worker(leased=False)
    errors = []

    def ask():
        try:
            worker.control.read_offsets([{"f": 1}])
        except OffsetsUnavailable as error:
            errors.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    worker.send(OffsetsRead(request=worker.receive().request, offsets=[], error="no brokers"))
    asking.join()
    assert errors == ["the committed offsets cannot be read: no brokers"]


def test_offsets_of_what_is_no_partition_are_not_asked_for(make_worker):
    with pytest.raises(NotStorable, match="f in a partition"):
        make_worker(leased=False).control.read_offsets([{"f": [1]}])


def test_nothing_is_asked_for_no_partitions(make_worker):
    assert list(make_worker(leased=False).control.read_offsets([])) == []


@pytest.mark.parametrize("error", [None, "not the leader"])
def test_a_commit_is_answered_later(make_worker, error):
    worker = make_worker(leased=False)
    pending = worker.control.commit_offsets([({"f": 1}, {"o": 2})])
    asked = worker.receive()
    assert isinstance(asked, CommitOffsets)
    assert asked.offsets == [({"f": 1}, {"o": 2})]
    assert not worker.control.await_commit(pending, 0.0)
    worker.send(OffsetsCommitted(request=asked.request, error=error))
    assert worker.control.await_commit(pending, 10)
    assert pending.error == error


def test_log_levels_are_set(make_worker, caplog):
    worker = make_worker(leased=False)
    logger = logging.getLogger("a_logger_of_this_test")
    worker.send(SetLogLevel(logger="a_logger_of_this_test", level="DEBUG"))
    eventually(lambda: logger.level == logging.DEBUG, "the level is set")
    worker.send(SetLogLevel(logger="a_logger_of_this_test", level="LOUD"))
    eventually(lambda: "no log level 'LOUD'" in caplog.text, "the wrong level is logged")


def test_a_process_whose_worker_has_gone_ends_at_once(make_worker):
    worker = make_worker(leased=True)
    worker.socket.close()
    eventually(lambda: worker.ended == [EXIT_ORPHANED], "it ends")


def test_ticks_come_now_and_then(make_worker, monkeypatch):
    monkeypatch.setattr("ottla_connect.task.control.TICK_INTERVAL_S", 0.01)
    ours, theirs = socket.socketpair()
    ticks: list[float] = []
    ended: list[int] = []
    Control(Channel(theirs), leased=False, end=ended.append).start(lambda: ticks.append(time.monotonic()))
    eventually(lambda: len(ticks) > 2, "it ticks")
    ours.close()
    eventually(lambda: ended, "it ends")
