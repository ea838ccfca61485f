"""A cluster or a worker that does not answer is told of in one line, in bounded time."""

import socket
from collections.abc import Iterator

import httpx
import pytest

from ottla_sdk.kafka import broker_probe
from ottla_spark.sql import connect_rest, topics
from ottla_spark.sql.connect_rest import CHANGE_TIMEOUT_S, ConnectRest
from ottla_spark.sql.sql_errors import SqlProblem, UsageProblem
from ottla_spark.sql.topics import Topics


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of something that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_what_says_nothing_may_be_no_broker(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_probe, "PROBE_WITHIN_S", 0.5)
    with pytest.raises(
        SqlProblem, match=rf"cannot reach {silent} \(it accepts connections, but did not answer within"
    ):
        Topics(silent, {})


def test_a_broker_that_falls_silent_is_not_waited_for(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert topics.ANSWER_TIMEOUT_S <= 5
    monkeypatch.setattr(topics, "ANSWER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(topics, "check_reachable", lambda *_: None)
    with pytest.raises(SqlProblem, match=f"{silent} did not answer as a broker within 0.2 s .*--property"):
        Topics(silent, {}).all()


def test_a_setting_without_counterpart_is_told_before_anybody_is_asked() -> None:
    with pytest.raises(UsageProblem, match=r"--property ssl\.protocol: OpenSSL decides"):
        Topics("nowhere.invalid:1", {"ssl.protocol": "TLS"})


def test_a_worker_that_says_nothing_is_not_waited_for(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect_rest.READ_TIMEOUT_S <= 5
    monkeypatch.setattr(connect_rest, "READ_TIMEOUT_S", 0.2)
    connect = ConnectRest(f"http://{silent}")
    with pytest.raises(SqlProblem, match=f"the Connect worker at http://{silent} did not answer"):
        connect.ask("GET", "/connectors")
    connect.close()


def test_a_change_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx.Timeout] = []

    def answer(
        _client: httpx.Client, method: str, url: str, *, timeout: httpx.Timeout, json: object = None
    ) -> object:
        asked.append(timeout)
        return httpx.Response(204, request=httpx.Request(method, url, json=json))

    monkeypatch.setattr(httpx.Client, "request", answer)
    connect = ConnectRest("http://127.0.0.1:1")
    connect.ask("POST", "/connectors", {})
    connect.ask("DELETE", "/connectors/x")
    assert [each.read for each in asked] == [CHANGE_TIMEOUT_S] * 2
    connect.close()
