"""Runs a connector in this process: puts its parts together, and translates between it and the worker."""

from collections.abc import Mapping
from typing import Any

from ottla_connect.processes.messages import HealthTold, Measured, Paused, RunConnector, Running, Stopped, TaskConfigs
from ottla_connect.task.channel import Channel
from ottla_connect.task.connector_runner import ConnectorRunner
from ottla_connect.task.contexts import RunningConnectorContext
from ottla_connect.task.control import Control
from ottla_connect.task.health import Health
from ottla_connect.task.measures import PluginMetrics
from ottla_connect.task.process import Process
from ottla_sdk import Connector, SinkConnector, class_name
from ottla_sdk.runtime.redaction import Redaction
from ottla_sdk.runtime.references import put_back

CLASS_KEY = "connector.class"
TASK_CLASS_KEY = "task.class"
TASKS_MAX_KEY = "tasks.max"


def run_connector(channel: Channel, redaction: Redaction, purpose: RunConnector) -> None:
    """Run a connector until it is to stop; raises what it fails with."""
    control = Control(channel, leased=False)
    metrics = PluginMetrics()
    health = Health(lambda document: control.send(HealthTold(health=document)), redaction.text)
    reported: dict[str, float] = {}

    def report_readings() -> None:
        nonlocal reported
        if (readings := metrics.readings()) != reported:
            reported = readings
            control.send(Measured(values=readings))
        health.report()

    control.start(report_readings)
    process = Process.make(channel, redaction, purpose.worker)
    kind = process.lookup.find(purpose.settings.get(CLASS_KEY, ""), Connector)
    settings = process.providers.resolve(purpose.settings)

    def make() -> Connector[Any]:
        connector = kind()
        connector.configure(settings)
        connector.context = RunningConnectorContext(
            purpose.connector,
            control,
            metrics,
            health,
            on_reconfigure=runner.request_reconfiguration,
            on_failure=runner.fail,
        )
        return connector

    def send_task_configs(configs: list[Mapping[str, str]]) -> None:
        written = purpose.settings
        texts = ({key: str(value) for key, value in each.items()} for each in configs)
        stored = (put_back(each, written, settings, process.providers.restored) for each in texts)
        control.send(TaskConfigs(configs=[each | _added_settings(kind, written) for each in stored]))

    def on_running() -> None:
        control.send(Running(version=process.lookup.version(kind)))
        health.runs(runs=True)

    def on_paused() -> None:
        health.runs(runs=False)
        control.send(Paused())

    runner = ConnectorRunner(
        make=make,
        control=control,
        tasks_max=int(settings.get(TASKS_MAX_KEY, "1")),
        on_task_configs=send_task_configs,
        health=health,
        on_running=on_running,
        on_paused=on_paused,
    )
    runner.run()
    control.send(Stopped())


def _added_settings(kind: type[Connector[Any]], written: Mapping[str, str]) -> dict[str, str]:
    """Return what Kafka Connect adds to the settings of a task (Worker)."""
    added = {TASK_CLASS_KEY: class_name(kind.task_class)}
    if issubclass(kind, SinkConnector):
        added |= {key: written[key] for key in ("topics", "topics.regex") if key in written}
    return added
