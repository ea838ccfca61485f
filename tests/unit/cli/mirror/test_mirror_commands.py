"""`ottla mirror` and the documents of the workers' REST API: what it sends, prints, and exits with."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from pydantic import BaseModel

from ottla.main import main
from ottla.mirror import first_copy_progress, mirror_client
from ottla_mirror.rest.entities import (
    FlowInfo,
    FlowLag,
    FlowStatus,
    FlowSummary,
    GroupPartition,
    GroupStatus,
    GroupSync,
    NewFlow,
    PartitionStatus,
    Throttle,
    TopicStatus,
    WorkerInfo,
    WorkerShare,
)
from tests.support.servers.http_service import HttpService, Reply, Request

FLOW = "west->east"
PARTITION = PartitionStatus(
    topic="orders", remote_topic="west.orders", partition=0, state="COPYING", reason="", worker_id="http://w1:8084",
    source_start=0, source_position=90, source_end=100, target_position=90, lag_records=10, lag_bytes=1_000,
    lag_seconds=2.5, records_copied=90, bytes_copied=9_000, records_per_second=10.0, bytes_per_second=1_000.0,
    records_missed=0, records_refused=0, offsets_unknown=7,
)  # fmt: skip
SUMMARY = FlowSummary(
    name=FLOW, source="west", target="east", origin="created", state="RUNNING", reason="", topics=1, partitions=1,
    lag_records=10, throttle_bytes_per_second=None,
)  # fmt: skip
STATUS = FlowStatus(
    name=FLOW, state="RUNNING", reason="", paused=False, throttle_bytes_per_second=20_000_000,
    workers=[WorkerShare(worker_id="http://w1:8084", partitions=1, leads=True)],
    topics=[TopicStatus(topic="orders", remote_topic="west.orders", partitions=1, state="COPIED", reason="")],
    partitions=[PARTITION],
)  # fmt: skip
LAG = FlowLag(
    name=FLOW, state="RUNNING", lag_records=10, lag_bytes=1_000, lag_seconds=2.5, records_per_second=10.0,
    bytes_per_second=1_000.0, source_records=100, seconds_left=75.0, partitions_unknown=0, partitions=[PARTITION],
)  # fmt: skip
INFO = FlowInfo(
    name=FLOW, source="west", target="east", origin="created", paused=False, throttle_bytes_per_second=None,
    settings={"topics": "orders.*"}, source_settings={},
)  # fmt: skip


class Worker:
    """Answers by method and path; what was asked is checked against the API's models."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], list[Any]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.service = HttpService(self._respond)

    def answers_with(self, method: str, path: str, *documents: Any) -> None:
        """One after the other, and the last for ever."""
        self.answers[method, path] = list(documents)

    def _respond(self, request: Request) -> Reply:
        if request.path == "/":
            return _reply(WorkerInfo(version="1", worker_id="w", targets=["east"], flows=[FLOW]))
        path = unquote(request.path)
        self.asked.append((request.method, path, json.loads(request.body) if request.body else None))
        documents = self.answers.get((request.method, path))
        if documents is None:
            return _reply({"error_code": 404, "message": f"there is no {path}"}, 404)
        document = documents.pop(0) if len(documents) > 1 else documents[0]
        return document if isinstance(document, Reply) else _reply(document)


def _reply(document: Any, status: int = 200) -> Reply:
    plain = [each.model_dump() for each in document] if isinstance(document, list) else document
    return Reply(status=status, body=plain.model_dump() if isinstance(plain, BaseModel) else plain)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    made = Worker()
    with made.service:
        monkeypatch.setenv("OTTLA_MIRROR_URL", made.service.url)
        monkeypatch.setattr(first_copy_progress, "LOOK_INTERVAL_S", 0.01)
        yield made


@pytest.fixture
def ottla(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["ottla", "mirror", *arguments])
        code = main()
        output = capfd.readouterr()
        return code, output.out, output.err

    return run


def test_a_flow_is_created_as_the_api_wants_it(worker, ottla):
    worker.answers_with("POST", "/flows", INFO)
    code, out, err = ottla(
        "create", FLOW, "--source", "kafka:9092", "--source-X", "security.protocol=SSL", "--topics", "orders.*",
        "--topics", "prices", "-c", "sync.group.offsets.enabled=true",
    )  # fmt: skip
    assert (code, out, err) == (0, f"created {FLOW}\n", "")
    ((_, _, body),) = worker.asked
    assert NewFlow.model_validate(body) == NewFlow(
        source="west",
        target="east",
        source_settings={"security.protocol": "SSL", "bootstrap.servers": "kafka:9092"},
        settings={"topics": "orders.*,prices", "sync.group.offsets.enabled": "true"},
    )


def test_the_first_copy_is_watched_until_nothing_is_left(worker, ottla):
    worker.answers_with("POST", "/flows", INFO)
    starting = LAG.model_copy(update={"state": "STARTING", "lag_records": 0, "seconds_left": None})
    unknown = LAG.model_copy(update={"lag_records": 0, "partitions_unknown": 1})
    done = LAG.model_copy(update={"lag_records": 0})
    worker.answers_with("GET", f"/flows/{FLOW}/lag", starting, LAG, unknown, done)
    code, out, _ = ottla("create", FLOW, "--wait")
    assert code == 0
    assert out.splitlines()[-1] == f"{FLOW} has copied everything: 100 records"
    assert [path for _, path, _ in worker.asked].count(f"/flows/{FLOW}/lag") == 4


def test_lag_waits_for_a_worker_that_is_starting(worker, ottla, monkeypatch):
    worker.answers_with("GET", f"/flows/{FLOW}/lag", LAG.model_copy(update={"lag_records": 0}))
    worker.service.stop()
    looks = []

    def start_after_two_looks(_seconds: float) -> None:
        looks.append(None)
        if len(looks) == 2:
            worker.service.start()

    monkeypatch.setattr(mirror_client.time, "sleep", start_after_two_looks)
    code, out, _ = ottla("lag", FLOW, "--wait")
    assert code == 0
    assert len(looks) >= 2
    assert FLOW in out

    worker.service.stop()
    code, _, err = ottla("lag", FLOW, "--wait", "--within", "0")
    assert code == 1
    assert "cannot reach" in err
    worker.service.start()


def test_a_flow_that_fails_ends_the_wait(worker, ottla):
    worker.answers_with("GET", f"/flows/{FLOW}/lag", LAG, LAG.model_copy(update={"state": "FAILED"}))
    code, _, err = ottla("lag", FLOW, "--wait")
    assert code == 1
    assert "has failed" in err


def test_a_wait_that_is_over_says_what_is_left(worker, ottla):
    worker.answers_with("GET", f"/flows/{FLOW}/lag", LAG)
    code, _, err = ottla("lag", FLOW, "--wait", "--within", "0.05")
    assert code == 1
    assert "behind by 10 records" in err


@pytest.mark.parametrize(
    ("change", "code"),
    [({}, 0), ({"state": "DEGRADED", "reason": "orders-0 is halted"}, 1), ({"state": "STARTING"}, 0)],
)
def test_a_list_exits_with_1_if_something_does_not_work(worker, ottla, change, code):
    worker.answers_with("GET", "/flows", [SUMMARY.model_copy(update=change)])
    found, out, _ = ottla("list")
    assert found == code
    assert FLOW in out
    assert change.get("reason", "") in out


def test_status_shows_topics_and_partitions_that_do_not_work(worker, ottla):
    halted = PARTITION.model_copy(update={"state": "HALTED", "reason": "offset 17 is too large for the target"})
    document = STATUS.model_copy(update={"state": "DEGRADED", "partitions": [halted]})
    worker.answers_with("GET", "/flows", [SUMMARY])
    worker.answers_with("GET", f"/flows/{FLOW}/status", document)
    code, out, _ = ottla("status")
    assert code == 1
    assert "orders-0: HALTED: offset 17 is too large for the target" in out
    assert "at most 20.0 MB/s" in out


def test_lag_shows_times_and_partitions(worker, ottla):
    worker.answers_with("GET", f"/flows/{FLOW}/lag", LAG)
    code, out, _ = ottla("lag", FLOW, "--partitions")
    assert code == 0
    assert "1 min 15 s" in out
    assert "west.orders" in out


@pytest.mark.parametrize(("command", "done"), [("pause", "paused"), ("resume", "resumed")])
def test_flows_are_paused_and_resumed_each_by_itself(worker, ottla, command, done):
    worker.answers_with("PUT", f"/flows/{FLOW}/{command}", Reply(status=202))
    code, out, err = ottla(command, FLOW, "a->b")
    assert code == 1
    assert out == f"{done} {FLOW}\n"
    assert f"a->b was not {done}" in err


@pytest.mark.parametrize(("rate", "sent"), [("20000000", 20_000_000), ("none", None)])
def test_a_throttle_is_set_and_taken_away(worker, ottla, rate, sent):
    worker.answers_with("PUT", f"/flows/{FLOW}/throttle", Reply(status=202))
    assert ottla("throttle", FLOW, rate)[0] == 0
    assert Throttle.model_validate(worker.asked[0][2]).bytes_per_second == sent


def test_a_flow_is_deleted(worker, ottla):
    worker.answers_with("DELETE", f"/flows/{FLOW}", Reply(status=204))
    assert ottla("delete", FLOW, "--yes") == (0, f"deleted {FLOW}\n", "")


@pytest.mark.parametrize(("is_written", "code"), [(True, 0), (False, 1)])
def test_a_group_is_translated_and_it_says_what_is_not_copied(worker, ottla, is_written, code):
    partition = GroupPartition(
        topic="orders",
        remote_topic="west.orders",
        partition=0,
        source_offset=95,
        target_offset=90,
        records_not_copied=5,
    )
    answer = GroupSync(
        group="billing", written=is_written, reason="" if is_written else "members", partitions=[partition]
    )
    worker.answers_with("POST", f"/flows/{FLOW}/groups/billing/sync", answer)
    found, out, err = ottla("group", "sync", FLOW, "billing")
    assert found == code
    assert "95" in out
    assert ("billing were not written: members" in err) is not is_written


def test_groups_are_listed(worker, ottla):
    group = GroupStatus(group="billing", state="SYNCED", reason="", checkpoint_ms=1_700_000_000_000, partitions=2)
    worker.answers_with("GET", f"/flows/{FLOW}/groups", [group])
    code, out, _ = ottla("group", "list", FLOW)
    assert code == 0
    assert "billing" in out
    assert "2023-11-1" in out


def test_json_is_what_the_workers_say(worker, ottla):
    worker.answers_with("GET", "/flows", [SUMMARY])
    assert json.loads(ottla("list", "--json")[1]) == [SUMMARY.model_dump()]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("create", "west"), 2, "write a flow as SOURCE->TARGET"),
        (("create", FLOW, "--source-X", "a=b"), 2, "name them with --source"),
        (("create", FLOW, "--topics", "a", "-c", "topics=b"), 2, "leave one out"),
        (("throttle", FLOW, "fast"), 2, "whole number of bytes"),
        (("pause", FLOW, "--mirror-url", "nowhere"), 2, "--mirror-url nowhere: write it as http://HOST:PORT"),
        (("list", "--mirror-url", "http://127.0.0.1:1"), 1, "or name a worker with --mirror-url"),
        (("status", "no->flow"), 1, "there is no /flows/no->flow"),
    ],
)
def test_mistakes_are_one_line(worker, ottla, arguments, code, told):
    found, out, err = ottla(*arguments)
    assert (found, out) == (code, "")
    assert len(err.splitlines()) == 1
    assert told in err
