"""What a connector or task says of how its work goes."""

import pytest

from ottla_connect.task.health import Health


class Parts:
    def __init__(self) -> None:
        self.sent = []
        self.now_s = 1000.0
        self.given = 0
        self.health = Health(
            self.sent.append,
            lambda text: text.replace("SECRET", "[hidden]"),
            given=lambda: self.given,
            now_s=lambda: self.now_s,
        )
        self.health.runs(runs=True)


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_what_is_waited_for_is_told_at_once_and_since_when(parts):
    parts.health.waits("no server at SECRET", 3.0)
    parts.now_s = 1002.0
    parts.health.waits("no server at SECRET", 6.0)
    assert parts.sent == [
        {"state": "WAITING", "reason": "no server at [hidden]", "since_ms": 1_000_000, "next_try_ms": 1_003_000}
    ]
    assert parts.health.waiting_ms() == 2000
    parts.health.report()
    assert parts.sent[-1]["next_try_ms"] == 1_008_000
    assert parts.sent[-1]["since_ms"] == 1_000_000
    parts.health.works()
    assert parts.sent[-1] == {"state": "WORKING"}
    assert parts.health.waiting_ms() == 0


def test_an_error_without_a_message_is_a_reason_too(parts):
    parts.health.waits("")
    assert parts.sent[-1]["reason"] == "an error without a message"


def test_what_a_plugin_says_holds_until_a_call_without_it(parts):
    for _ in range(2):
        parts.health.begins()
        parts.health.plugin_waits("there is no file")
        parts.health.works()
    assert [each["state"] for each in parts.sent] == ["WAITING"]
    parts.health.begins()
    parts.health.works()
    assert parts.sent[-1] == {"state": "WORKING"}


def test_a_plugin_can_take_it_back(parts):
    parts.health.plugin_waits("there is no file")
    parts.health.plugin_waits(None)
    assert parts.sent[-1] == {"state": "WORKING"}


def test_nothing_is_told_while_it_pauses(parts):
    parts.health.runs(runs=False)
    parts.health.waits("no server")
    parts.health.report()
    assert parts.sent == []
    parts.health.runs(runs=True)
    parts.health.report()
    assert parts.sent == [{"state": "WORKING"}]


def test_rate_and_lag_are_told_when_they_change(parts):
    parts.health.report()
    parts.given, parts.now_s = 12_345, 1010.0
    parts.health.lags(7)
    parts.health.report()
    assert parts.sent[-1] == {"state": "WORKING", "records_per_second": 1200.0, "lag": 7}
    parts.now_s = 1015.0
    parts.health.report()
    assert len(parts.sent) == 2
