"""A sink's runner with a scripted consumer: what it puts and commits; the rules by themselves are in transcripts."""

import time
from contextlib import suppress

import pytest
from confluent_kafka import Message
from confluent_kafka import TopicPartition as KafkaTopicPartition

from ottla_connect.task.control import WantedState
from ottla_connect.task.health import Health
from ottla_connect.task.measures import TaskMeasures
from ottla_connect.task.pipeline.dead_letters import DeadLettersLost
from ottla_connect.task.pipeline.error_handler import ToleranceExceeded
from ottla_connect.task.sink.actions import SinkSettings
from ottla_connect.task.sink.runner import ReportsNotSettled, SinkRunner
from ottla_connect.task.sink.subscription import Subscription
from ottla_sdk import ConnectError, DataError
from ottla_sdk.kafka.hung_consumers import ConsumerWatch

P0 = KafkaTopicPartition("t", 0)


class ScriptedControl:
    """Stands as it is told, one turn of the loop after the other."""

    leased = True

    def __init__(self, standings):
        self.standings = standings

    def wanted_state(self):
        return self.standings.pop(0)


class ScriptedConsumer:
    """Each read does the next step of a script, which may call back, and returns its messages."""

    def __init__(self, reads):
        self.reads = reads
        self.commits = []
        self.events = []

    def commit(self, offsets, asynchronous):
        self.commits += [each.offset for each in offsets]
        self.events.append("commit")

    def subscribe(self, topics, on_assign, on_revoke, on_lost):
        self.on_assign, self.on_revoke = on_assign, on_revoke

    def consume(self, count, timeout):
        return self.reads.pop(0)(self) if self.reads else []

    def poll(self, timeout):
        return None

    def committed(self, partitions, timeout):
        return partitions

    def position(self, partitions):
        return []

    def _ignore(self, *args, **kwargs):
        return None

    incremental_assign = pause = resume = seek = unsubscribe = _ignore

    def close(self):
        self.events.append("close")


class CollectingTask:
    """Keeps the offsets that it was given."""

    def __init__(self, on_put, on_pre_commit):
        self.put_offsets = []
        self.ends = []
        self.on_put = on_put
        self.on_pre_commit = on_pre_commit

    def put(self, records):
        self.put_offsets += [each.offset() for each in records]
        if records:
            self.on_put(self.runner)

    def pre_commit(self, offsets):
        self.on_pre_commit(self.runner)
        return offsets

    def start(self):
        pass

    def stop(self):
        self.ends.append("stop")

    def open(self, partitions):
        pass

    def close(self, partitions):
        self.ends.append("close")


class Unconverted:
    """Takes messages for records."""

    def convert(self, messages, positions):
        for each in messages:
            positions.read(each.topic(), [each.partition()], [each.offset()])
        return list(messages)

    def message_of(self, record):
        return record


class LostDeadLetters:
    """A dead letter topic that refuses what it is given."""

    def __init__(self, events):
        self.events = events

    def flush(self, timeout_s):
        self.events.append("flush dead letters")
        raise DeadLettersLost("refused")


class Intolerant:
    """Tolerates no error."""

    def drop(self, failure):
        raise ToleranceExceeded("not tolerated")


class NoTopicIds:
    """A cluster that gives no ids."""

    def ask_all(self, topics):
        return {}

    def begin(self, topics):
        return self

    def is_answered(self):
        return False


def run(standings, reads):
    """Run a task through a script; return the offsets that it was given."""
    return run_with_commits(standings, reads, lambda runner: None)[0]


def run_with_commits(standings, reads, on_put):
    """Run a task that does something in each `put`; return the offsets that it was given, and those committed."""
    task, consumer = CollectingTask(on_put, nothing), ScriptedConsumer(reads)
    runner_of(task, consumer, standings).run()
    return task.put_offsets, consumer.commits


def nothing(runner):
    """What a task does that does nothing."""


def runner_of(task, consumer, standings, dead_letters=None):
    """Return a runner, which the task knows."""
    measures = TaskMeasures("sink")
    runner = SinkRunner(
        task=task,
        control=ScriptedControl(standings),
        settings=SinkSettings(
            poll_records_max=10, flush_interval_s=60.0, flush_timeout_s=5.0, incremental=True, from_start=True
        ),
        measures=measures,
        health=Health(lambda document: None, str, now_s=time.time),
        on_running=lambda: None,
        on_paused=lambda: None,
        on_topics=lambda topics: None,
    )
    runner.connect(
        make_consumer=lambda on_commit: consumer,
        make_subscription=lambda consumer: Subscription({"topics": "t"}, list_topics=list, max_age_s=60.0),
        conversion=Unconverted(),
        handler=Intolerant(),
        dead_letters=dead_letters,
        watch=ConsumerWatch(),
        topic_ids=NoTopicIds(),
    )
    task.runner = runner
    return runner


def message(offset):
    return Message(topic="t", partition=0, offset=offset, value=b"v")


def assigned_with(*offsets):
    def read(consumer):
        consumer.on_assign(consumer, [P0])
        return [message(each) for each in offsets]

    return read


def revoked(consumer):
    consumer.on_revoke(consumer, [P0])
    return []


def test_what_came_while_a_task_was_paused_is_put_when_it_goes_on():
    standings = [WantedState.WORKING, WantedState.PAUSED, WantedState.WORKING, WantedState.STOPPING]
    assert run(standings, [assigned_with(5), lambda consumer: [message(6)]]) == [5, 6]


def test_what_came_while_a_task_was_paused_goes_with_its_partition():
    standings = [WantedState.WORKING, *[WantedState.PAUSED] * 2, WantedState.WORKING, WantedState.STOPPING]
    assert run(standings, [assigned_with(5), lambda consumer: [message(6)], revoked]) == [5]


def test_what_came_while_there_was_no_lease_goes_with_its_partition():
    standings = [WantedState.WORKING, *[WantedState.UNLEASED] * 2, WantedState.WORKING, WantedState.STOPPING]
    assert run(standings, [assigned_with(5), lambda consumer: [message(6)], revoked]) == [5]


def test_no_commit_is_of_what_a_task_has_asked_to_get_again():
    def ask_for_it_again(runner):
        runner.seek({("t", 0): 5})
        runner.request_commit()

    standings = [WantedState.WORKING, WantedState.WORKING, WantedState.STOPPING]
    assert run_with_commits(standings, [assigned_with(5, 6)], ask_for_it_again) == ([5, 6], [])


def test_a_task_that_stops_commits_nothing_of_what_it_has_asked_to_get_again():
    standings = [WantedState.WORKING, WantedState.STOPPING]
    reads = [assigned_with(5, 6)]
    assert run_with_commits(standings, reads, lambda runner: runner.seek({("t", 0): 5})) == ([5, 6], [])


def test_a_task_that_stops_commits_what_it_has_put():
    assert run_with_commits([WantedState.WORKING, WantedState.STOPPING], [assigned_with(5, 6)], lambda _: None) == (
        [5, 6],
        [7],
    )


def test_nothing_is_committed_where_a_dead_letter_is_lost_also_of_those_that_pre_commit_itself_reports():
    consumer = ScriptedConsumer([assigned_with(5, 6)])
    task = CollectingTask(nothing, lambda runner: consumer.events.append("pre_commit"))
    runner = runner_of(
        task, consumer, [WantedState.WORKING, WantedState.STOPPING], dead_letters=LostDeadLetters(consumer.events)
    )
    with pytest.raises(DeadLettersLost):
        runner.run()
    assert consumer.events == ["pre_commit", "flush dead letters", "close"]


@pytest.mark.parametrize("swallowed", [(), ConnectError], ids=["let pass", "swallowed"])
@pytest.mark.parametrize("settles_in", ["put", "pre_commit"])
def test_a_task_that_settles_its_reports_fails_where_a_dead_letter_is_lost(swallowed, settles_in):
    """It is told before it moves offsets of its own, and not in the words that are about a single record."""
    told = []

    def settle(runner):
        with suppress(swallowed):
            try:
                runner.settle_reports()
            except ConnectError as error:
                told.append(error)
                raise

    consumer = ScriptedConsumer([assigned_with(5, 6), lambda consumer: [message(7)]])
    calls = {"put": nothing, "pre_commit": nothing, settles_in: settle}
    task = CollectingTask(calls["put"], calls["pre_commit"])
    standings = [*[WantedState.WORKING] * 2, WantedState.STOPPING]
    runner = runner_of(task, consumer, standings, dead_letters=LostDeadLetters(consumer.events))
    with pytest.raises(DeadLettersLost):
        runner.run()
    assert consumer.commits == []
    assert isinstance(told[0], ReportsNotSettled)
    assert not isinstance(told[0], DataError)


def report_and_go_on(runner):
    with suppress(ToleranceExceeded):
        runner.report(message(5), ValueError("bad"))


def test_a_task_that_swallows_the_refusal_of_a_report_fails_at_once_and_commits_nothing():
    consumer = ScriptedConsumer([assigned_with(5, 6), lambda consumer: [message(7)]])
    task = CollectingTask(report_and_go_on, nothing)
    with pytest.raises(ToleranceExceeded):
        runner_of(task, consumer, [*[WantedState.WORKING] * 2, WantedState.STOPPING]).run()
    assert (task.put_offsets, consumer.commits) == ([5, 6], [])


def test_a_task_that_swallows_the_refusal_of_a_report_in_pre_commit_commits_nothing():
    consumer = ScriptedConsumer([assigned_with(5, 6)])
    task = CollectingTask(nothing, report_and_go_on)
    with pytest.raises(ToleranceExceeded):
        runner_of(task, consumer, [WantedState.WORKING, WantedState.STOPPING]).run()
    assert consumer.commits == []


def test_partitions_that_cannot_be_committed_are_given_away_and_closed_all_the_same():
    failures = [ValueError("broken")]

    def fail_once(runner):
        if failures:
            raise failures.pop()

    consumer = ScriptedConsumer([assigned_with(5, 6), revoked])
    task = CollectingTask(nothing, fail_once)
    with pytest.raises(ValueError, match="broken"):
        runner_of(task, consumer, [*[WantedState.WORKING] * 2, WantedState.STOPPING]).run()
    assert (task.ends, consumer.commits) == (["close", "stop"], []), "at its end it has nothing to commit"


def test_a_task_that_cannot_commit_at_its_end_is_closed_and_stopped_and_fails():
    consumer = ScriptedConsumer([assigned_with(5, 6)])
    task = CollectingTask(nothing, fail)
    with pytest.raises(ValueError, match="broken"):
        runner_of(task, consumer, [WantedState.WORKING, WantedState.STOPPING]).run()
    assert (task.ends, consumer.events) == (["close", "stop"], ["close"])


def fail(runner):
    raise ValueError("broken")
