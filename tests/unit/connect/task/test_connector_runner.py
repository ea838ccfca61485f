"""A connector's own process: start, task settings, reconfiguration, stop."""

import pytest

from ottla_connect.task.connector_runner import ConnectorRunner, TooManyTasks
from ottla_connect.task.control import WantedState
from ottla_connect.task.health import Health
from ottla_sdk import Connector, RetriableError


class ScriptedControl:
    """Goes through a script: each wait does the next step."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.now = WantedState.WORKING

    def wanted_state(self):
        return self.now

    def notify(self):
        pass

    def await_change(self, timeout_s=None):
        self.steps.pop(0)(self)

    def wait(self, seconds):
        self.steps.pop(0)(self)
        return self.now is WantedState.STOPPING


class Events(list):
    def connector(self, configs=([{"a": "1"}],), fail_in=""):
        answers = list(configs)
        events = self

        class Scripted(Connector):
            def start(self):
                events.append("start")
                if fail_in == "start":
                    raise ValueError("no")

            def task_configs(self, tasks_max):
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if isinstance(answer, Exception):
                    raise answer
                return answer

            def stop(self):
                events.append("stop")

        return Scripted

    def runner(self, control, connector, tasks_max=2):
        self.control = control
        return ConnectorRunner(
            make=connector,
            control=control,
            tasks_max=tasks_max,
            health=Health(lambda document: None, str),
            on_task_configs=lambda configs: self.append(("configs", configs)),
            on_running=lambda: self.append("running"),
            on_paused=lambda: self.append("paused"),
        )


def to(wanted):
    def step(control):
        control.now = wanted

    return step


STOP = to(WantedState.STOPPING)


def test_a_connector_starts_says_what_its_tasks_do_and_stops():
    events = Events()
    events.runner(ScriptedControl(STOP), events.connector()).run()
    assert events == ["start", "running", ("configs", [{"a": "1"}]), "stop"]


def test_task_settings_are_asked_for_again_when_the_connector_says_so():
    events = Events()
    control = ScriptedControl(lambda control: runner.request_reconfiguration(), STOP)
    runner = events.runner(control, events.connector([[{"a": "1"}], [{"a": "1"}, {"a": "2"}]]))
    runner.run()
    assert events[2:4] == [("configs", [{"a": "1"}]), ("configs", [{"a": "1"}, {"a": "2"}])]


def test_a_paused_connector_is_stopped_and_started_again():
    events = Events()
    control = ScriptedControl(to(WantedState.PAUSED), to(WantedState.WORKING), STOP)
    events.runner(control, events.connector()).run()
    assert [each for each in events if isinstance(each, str)] == [
        "start",
        "running",
        "stop",
        "paused",
        "start",
        "running",
        "stop",
    ]


def test_more_tasks_than_allowed_are_refused():
    events = Events()
    with pytest.raises(TooManyTasks, match=r"3 tasks, but its setting tasks\.max is 2"):
        events.runner(ScriptedControl(), events.connector([[{}, {}, {}]])).run()
    assert events[-1] == "stop"


def test_what_the_connector_reports_fails_it():
    events = Events()
    control = ScriptedControl(lambda control: runner.fail(KeyError("table")))
    runner = events.runner(control, events.connector())
    with pytest.raises(KeyError, match="table"):
        runner.run()
    assert events[-1] == "stop"


def test_what_start_raises_fails_it_and_it_is_stopped():
    events = Events()
    with pytest.raises(ValueError, match="no"):
        events.runner(ScriptedControl(), events.connector(fail_in="start")).run()
    assert events == ["start", "stop"]


def test_task_settings_that_cannot_be_made_now_are_asked_for_later():
    events = Events()
    later = lambda control: None  # noqa: E731
    control = ScriptedControl(later, later, STOP)
    events.runner(control, events.connector([RetriableError("a"), RetriableError("b"), [{"a": "1"}]])).run()
    assert events == ["start", "running", ("configs", [{"a": "1"}]), "stop"]


def test_a_connector_that_is_to_stop_does_not_wait_for_that():
    events = Events()
    events.runner(ScriptedControl(STOP), events.connector([RetriableError("a")])).run()
    assert events == ["start", "running", "stop"]
