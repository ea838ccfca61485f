"""What a task that says itself where transactions end gets into them, with a producer that keeps account."""

import json

import pytest

from ottla_connect.task.control import WantedState
from ottla_connect.task.health import Health
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.source import runner
from ottla_connect.task.source.boundaries import Boundaries, Boundary
from ottla_connect.task.source.in_flight import CommittableOffset
from ottla_connect.task.source.runner import SourceRunner
from ottla_connect.task.source.transactions import Transactions
from ottla_connect.task.transactional_client import CallWatch
from ottla_sdk import RetriableError, SourceRecord

PARTITION = {"p": 0}
AWAY = None
"""In place of the numbers of records: the source cannot be read now."""


class AccountedProducer:
    """Stands in for the producer and the sender around it: which records and offsets were committed."""

    def __init__(self):
        self.open = None
        self.committed = []
        self.offset = None
        self._safe = {}

    def begin_transaction(self):
        assert self.open is None
        self.open = []

    def produce(self, topic, *, value, key, partition):
        self.open.append(json.loads(value))

    def commit_transaction(self, timeout_s):
        for each in self.open:
            if isinstance(each, dict):
                self.offset = each["n"]
            else:
                self.committed.append(each)
        self.open = None

    def abort_transaction(self, timeout_s):
        self.open = None

    def send(self, records):
        for record in records:
            self.open.append(record.value)
            self._safe = {"0": CommittableOffset(PARTITION, record.source_offset)}

    def serve(self):
        """All is acknowledged at once."""

    def flush(self, timeout_s):
        return 0

    def take_committable(self):
        safe, self._safe = self._safe, {}
        return safe


class Scene:
    """A task that does in each `poll` what its script says, and is told to stop behind its last line."""

    leased = True
    stopping = False

    def __init__(self, *script):
        self.script = list(script)
        self.producer = AccountedProducer()
        self.boundaries = Boundaries(Boundary.CONNECTOR, interval_s=1.0, now_s=0.0)
        measures = TaskMeasures("source")
        self.transactions = Transactions(
            name="c",
            task=self,
            sender=self.producer,
            producer=self.producer,
            transactional_id="id",
            offsets_topic="offsets",
            boundaries=self.boundaries,
            control=self,
            measures=measures,
            calls=CallWatch(),
        )
        self.transactions._partitions = 1
        self.runner = SourceRunner(
            task=self,
            control=self,
            sender=self.transactions,
            commits=self.transactions,
            measures=measures,
            health=Health(lambda document: None, str),
            flush_timeout_s=1.0,
            on_running=lambda: None,
            on_paused=lambda: None,
        )

    def run(self):
        self.runner._loop()
        return self.producer

    def wanted_state(self):
        return WantedState.WORKING if self.script else WantedState.STOPPING

    def poll(self):
        numbers, says = self.script.pop(0)
        if says:
            getattr(self.boundaries.context, says)()
        if numbers is AWAY:
            raise RetriableError("the source is away")
        return [
            SourceRecord(topic="t", value=number, source_partition=PARTITION, source_offset={"n": number})
            for number in numbers
        ]

    def committed(self, offsets):
        """It does not matter to this task."""

    def read_offset_keys(self, partitions):
        return [[b"key"] for _ in partitions]

    def wait(self, seconds):
        return False

    def await_change(self, timeout_s):
        """Time does not matter to this task."""


def test_an_abort_that_is_said_when_there_are_no_more_records_takes_none_of_later_ones_along():
    producer = Scene(([1, 2], ""), ([], "abort"), ([3, 4], ""), ([], "commit")).run()
    assert producer.committed == [3, 4]
    assert producer.offset == 4


def test_a_commit_that_is_said_when_there_are_no_more_records_does_not_wait_for_others():
    producer = Scene(([1, 2], ""), ([], "commit")).run()
    assert (producer.committed, producer.offset) == ([1, 2], 2)


def test_what_is_said_before_the_source_cannot_be_read_holds_for_what_came_before(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(runner, "RETRY_MAX_S", 0.0)
    producer = Scene(([1, 2], ""), (AWAY, "abort"), ([3, 4], ""), (AWAY, "commit"), ([5], "")).run()
    assert producer.committed == [3, 4]
    assert producer.offset == 4


@pytest.mark.parametrize("says", ["commit", ""])
def test_nothing_is_begun_or_committed_where_a_poll_brings_nothing(says):
    producer = Scene(([], says)).run()
    assert (producer.open, producer.committed, producer.offset) == (None, [], None)
