"""The process of a connector, as a worker runs it."""

import json
from pathlib import Path

import pytest

from ottla_connect.processes.messages import (
    DescribeConfig,
    Failed,
    ListPlugins,
    Outlook,
    Paused,
    PluginsListed,
    Running,
    SetLogLevel,
    SetPaused,
    Stopped,
    TaskConfigs,
    Validate,
    Validated,
)
from tests.support.connect.connect_process import ConnectProcess

SOURCE = {"connector_class": "ListSource", "topic": "t", "tasks_max": "3"}

pytestmark = pytest.mark.slow


@pytest.fixture
def bootstrap():
    return "127.0.0.1:1"  # no connector needs a broker


def test_a_connector_says_what_its_tasks_do_with_references_in_place_of_secrets(connect, tmp_path):
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=hunter22\n")
    connect.worker |= {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    reference = f"${{file:{secrets}:password}}"
    process = connect.connector(**SOURCE, list_tasks="2", list_password=reference)
    configs = process.until(TaskConfigs).configs
    assert [each["list.task"] for each in configs] == ["0", "1"]
    assert [each["list.password"] for each in configs] == [reference, reference]
    assert {each["task.class"] for each in configs} == {"ottla_test_plugins.sources.ListSourceTask"}
    assert process.stop() == 0
    assert [type(each) for each in process.said] == [Running, TaskConfigs, Stopped]


def replace_text(path: Path, text: str) -> None:
    """Change a file at once: a connector that watches it must not see it empty."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


def test_a_connector_says_it_again_when_something_changes_and_pauses(connect, tmp_path):
    count = tmp_path / "count"
    process = connect.connector(**SOURCE, list_reconfigure_path=str(count))
    process.until(TaskConfigs, lambda each: len(each.configs) == 1)
    replace_text(count, "3")
    process.until(TaskConfigs, lambda each: len(each.configs) == 3)
    process.send(SetPaused(paused=True))
    process.until(Paused)
    process.send(SetPaused(paused=False))
    process.until(Running, count=2)
    replace_text(count, "fail")
    assert process.until(Failed).reason == "ValueError: the list is gone"
    assert process.wait() == 1


def test_a_connector_with_wrong_settings_fails_for_good(connect):
    process = connect.connector(connector_class="ListSource")
    failed = process.until(Failed)
    assert failed.outlook is Outlook.FATAL
    assert "topic: must be set" in failed.reason


def test_log_levels_are_set_in_running_processes(connect):
    process = connect.connector(**SOURCE)
    process.until(TaskConfigs)
    process.send(SetLogLevel(logger="root", level="NONSENSE"))
    process.stop()
    assert {
        "level": "warning",
        "logger": "ottla_connect.task.control",
        "message": "there is no log level 'NONSENSE'",
    } in (process.log_records)


def test_questions_are_answered_and_the_process_ends(connect, tmp_path):
    def answer(purpose):
        with ConnectProcess(purpose, output=tmp_path / "answer", lease=False) as process:
            assert process.wait() == 0
            process._reader.join(10)
            return process.said[0]

    listed = answer(ListPlugins(entry_point="test-plugins", worker={}))
    assert isinstance(listed, PluginsListed)
    assert listed.plugins
    validated = answer(Validate(settings={"name": "x", "connector.class": "ListSource"}, worker={}))
    assert isinstance(validated, Validated)
    assert json.dumps(validated.infos)
    assert validated.infos["error_count"] == 1
    assert answer(DescribeConfig(plugin="NoSuch", worker={})).error


def test_neither_connectors_nor_tasks_run_a_class_that_the_worker_denies(connect):
    connect.worker |= {"connector.classes.denied": "*.sources.ListSource"}
    told = "may not run"
    failed = connect.connector(**SOURCE).until(Failed)
    assert told in failed.reason
    assert failed.outlook is Outlook.FATAL
    failed = connect.source(topic="t").until(Failed)
    assert told in failed.reason
