"""The process of a source task that writes in transactions, as a worker runs it, against a cluster."""

import json
import os
import signal

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from ottla_connect.processes.messages import (
    CheckTransactions,
    CommitOffsets,
    Failed,
    FenceTasks,
    Measured,
    Outlook,
    Running,
    SetPaused,
    Stopped,
    TasksFenced,
    TransactionCheck,
)
from tests.support.connect.committed_lines import read_all
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

PARTITION = '{"list": 0}'
ENDLESS = {"list_count": 0, "list_batch": 5, "list_pause_ms": 20}


class Scene:
    """A topic, an offsets topic, and what readers of committed records see of both."""

    def __init__(self, kafka, connect):
        self.kafka, self.connect = kafka, connect
        self.topic, self.offsets_topic = kafka.topic(2), kafka.topic(3)
        self.name = connect.name()
        connect.worker |= {
            "group.id": kafka.topic(),
            "exactly.once.source.support": "enabled",
            "offset.storage.topic": self.offsets_topic,
        }

    def source(self, **options):
        return self.connect.source(self.topic, name=self.name, offsets=self.offsets(), **options)

    def positions(self, isolation="read_committed"):
        messages = read_all(self.kafka.bootstrap, [self.topic], isolation=isolation)
        return sorted(json.loads(each.value())["position"] for each in messages)

    def has_open_transaction(self):
        committed = len(self.positions())
        return len(self.positions("read_uncommitted")) > committed

    def offsets(self):
        """The committed offsets as a worker has them."""
        found = {}
        for each in read_all(self.kafka.bootstrap, [self.offsets_topic]):
            connector, partition = json.loads(each.key())
            assert connector == self.name
            found[json.dumps(partition)] = json.loads(each.value())
        return found


@pytest.fixture
def scene(kafka, connect):
    return Scene(kafka, connect)


def test_records_and_their_offsets_are_committed_together(scene):
    process = scene.source(list_count=1000, list_batch=7)
    eventually(lambda: len(scene.positions()) == 1000, "all records are committed")
    assert process.stop() == 0
    assert scene.positions() == list(range(1000))
    assert scene.offsets() == {PARTITION: {"position": 999}}
    assert not process.all(CommitOffsets), "the worker has nothing to commit"
    readings = process.all(Measured)[-1].values
    assert readings["transaction-size-max"] == 7
    assert readings["source-record-write-total"] == 1000


def test_a_task_that_is_killed_leaves_its_open_transaction_to_be_aborted_and_repeated(scene):
    process = scene.source(**ENDLESS, **interval(500))
    eventually(scene.positions, "a transaction is committed")
    eventually(scene.has_open_transaction, "another one is open")
    process.process.kill()
    assert process.wait() == -signal.SIGKILL
    second = scene.source(**ENDLESS, **interval(500))
    before = len(scene.positions())
    eventually(lambda: len(scene.positions()) > before, "the second task commits")
    assert second.stop() == 0
    found = scene.positions()
    assert found == list(range(len(found)))
    assert scene.offsets() == {PARTITION: {"position": len(found) - 1}}
    assert len(scene.positions("read_uncommitted")) > len(found)


def test_a_task_whose_successor_has_begun_commits_nothing_and_says_that_it_is_fenced(scene):
    zombie = scene.source(**ENDLESS, **interval(1000))
    eventually(scene.positions, "a transaction is committed")
    eventually(scene.has_open_transaction, "another one is open")
    os.kill(zombie.process.pid, signal.SIGSTOP)
    scene.source(**ENDLESS, **interval(1000)).until(Running)
    os.kill(zombie.process.pid, signal.SIGCONT)
    failed = zombie.until(Failed)
    assert failed.reason.startswith("TaskFenced: the task is fenced"), failed.trace
    assert failed.outlook is Outlook.OPEN
    before = len(scene.positions())
    eventually(lambda: len(scene.positions()) > before, "the successor goes on")
    found = scene.positions()
    assert found == list(range(len(found)))


@pytest.mark.parametrize("check", TransactionCheck)
def test_a_task_that_may_not_begin_reads_and_writes_nothing(scene, check):
    process = scene.source(list_count=10, lease=False)
    process.refuse_transactions[check] = "another worker has this task by now"
    process.lease()
    failed = process.until(Failed)
    assert failed.reason == "NoTransactions: another worker has this task by now"
    assert failed.outlook is Outlook.PASSING
    assert scene.positions("read_uncommitted") == []


def test_a_task_stops_in_order_while_it_waits_for_the_leader_to_fence_others(scene):
    process = scene.source(list_count=10, lease=False)
    process.answers_checks = False
    process.lease()
    process.until(CheckTransactions)
    assert process.stop() == 0
    assert process.said[-1] == Stopped()
    assert scene.positions("read_uncommitted") == []


def test_a_connector_says_where_transactions_end(scene):
    process = scene.source(
        list_count=20, list_batch=4, transaction_boundary="connector", list_commit_on="2,9", list_abort_on="5"
    )
    eventually(lambda: scene.offsets() == {PARTITION: {"position": 9}}, "the second transaction is committed")
    eventually(lambda: 19 in scene.positions("read_uncommitted"), "the rest is written")
    assert process.stop() == 0
    assert scene.positions() == [0, 1, 2, 6, 7, 8, 9], "3 to 5 were aborted, and the rest was never committed"
    assert scene.offsets() == {PARTITION: {"position": 9}}


def test_nothing_stays_uncommitted_while_a_task_is_paused(scene):
    process = scene.source(list_count=40, list_batch=10, **interval(3_600_000))
    eventually(lambda: len(scene.positions("read_uncommitted")) == 40, "all is written")
    assert scene.positions() == []
    process.send(SetPaused(paused=True))
    eventually(lambda: scene.positions() == list(range(40)), "all is committed")
    assert process.stop() == 0
    assert process.said[-1] == Stopped()


def test_what_was_sent_when_a_task_stops_is_committed(scene):
    process = scene.source(list_count=40, list_batch=10, **interval(3_600_000))
    eventually(lambda: len(scene.positions("read_uncommitted")) == 40, "all is written")
    assert process.stop() == 0
    assert scene.positions() == list(range(40))
    assert scene.offsets() == {PARTITION: {"position": 39}}


def test_what_a_task_has_sent_before_it_fails_is_aborted(scene):
    process = scene.source(
        list_count=0, list_batch=10, fault_where="poll", fault_kind="fatal", fault_after=2, **interval(3_600_000)
    )
    process.until(Failed)
    assert process.wait() == 1
    assert scene.positions() == []


def test_a_source_must_not_write_to_the_offsets_topic(scene):
    process = scene.connect.source(scene.offsets_topic, name=scene.name, list_count=1)
    assert "must not write to the offsets topic" in process.until(Failed).reason


def test_a_record_that_the_brokers_refuse_fails_the_task_whatever_is_tolerated(scene):
    limit = ConfigResource(ConfigResource.Type.TOPIC, scene.topic)
    limit.add_incremental_config(ConfigEntry("max.message.bytes", "100", incremental_operation=AlterConfigOpType.SET))
    scene.kafka.admin.incremental_alter_configs([limit])[limit].result(30)
    process = scene.source(list_count=0, list_batch=20, errors_tolerance="all")
    failed = process.until(Failed)
    assert "a transaction cannot be committed without it, whatever errors.tolerance says" in failed.reason
    assert scene.positions() == []


def test_fenced_tasks_have_their_transactions_aborted_and_cannot_begin_others(scene):
    zombies = [scene.source(task=number, list_task=number, **ENDLESS, **interval(1000)) for number in range(2)]
    for zombie in zombies:
        zombie.until(Running)
    eventually(scene.positions, "a transaction is committed")
    settings = {"name": scene.name, "connector.class": "ListSource", "topic": scene.topic}
    fencing = scene.connect.run(
        FenceTasks(connector=scene.name, settings=settings, worker=scene.connect.worker, tasks=2)
    )
    assert fencing.until(TasksFenced).error is None
    assert fencing.wait() == 0
    for zombie in zombies:
        failed = zombie.until(Failed)
        assert failed.reason.startswith("TaskFenced: "), failed.trace


def interval(milliseconds):
    return {"transaction_boundary": "interval", "transaction_boundary_interval_ms": milliseconds}
