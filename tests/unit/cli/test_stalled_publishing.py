"""Who publishes is told once why brokers take no records, each time that begins."""

import pytest

from ottla.records import stalled_publishing
from ottla.records.stalled_publishing import StalledPublishing, why_nothing_is_acknowledged
from tests.support.eventually import eventually
from tests.support.free_ports import free_port


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    notes: list[str] = []
    monkeypatch.setattr(stalled_publishing, "note", notes.append)
    return notes


class Wait:
    """Looks ten times a second."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.stalled = StalledPublishing(lambda: "the disk is full", lambda: self.now_s)

    def wait(self, seconds: float, outcomes: int) -> None:
        for _ in range(round(seconds * 10)):
            self.now_s += 0.1
            self.stalled.look(outcomes)


def test_a_reason_is_told_after_three_seconds_without_an_acknowledgement_and_once(told: list[str]) -> None:
    wait = Wait()
    wait.wait(2.9, outcomes=5)
    assert not wait.stalled.reason
    wait.wait(20, outcomes=5)
    eventually(lambda: told, "it is told")
    assert told == [
        "ottla: nothing has been acknowledged for 3 s: the disk is full; going on trying, Ctrl-C gives up"
    ]
    assert wait.stalled.reason == "the disk is full"
    wait.wait(1, outcomes=6)
    wait.wait(5, outcomes=6)
    eventually(lambda: len(told) == 2, "it is told again")


def test_waiting_for_input_is_no_stall(told: list[str]) -> None:
    wait = Wait()
    wait.wait(1, outcomes=5)
    wait.now_s += 600  # nobody has typed a line
    wait.wait(2.9, outcomes=5)
    assert not wait.stalled.reason
    assert not told


def test_a_cluster_that_is_gone_is_the_reason() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    assert f"cannot reach {nobody} (Connection refused)" in why_nothing_is_acknowledged("t", nobody, {})
