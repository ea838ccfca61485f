"""The directory of a cluster: lock, state file, logs."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.local.cluster_directory import ClusterDirectory, DirectoryInUse, default_directory, last_lines
from ottla_operations.local_clusters.cluster_report import ClusterReport, ProcessReport

PROCESS = ProcessReport(
    role="broker", id=1, pid=7, start="boot/9", address="127.0.0.1:9092", port=9092, rpc="127.0.0.1:1",
    metrics=None, log="/d/logs/broker-1.log", state="ready", restarts=2,
)  # fmt: skip
REPORT = ClusterReport(
    bootstrap="127.0.0.1:9092", directory="/d", state="running", etcd=("http://127.0.0.1:2",), embedded_etcd=True,
    brokers=1, controllers=1, base_port=9092, supervisor_pid=3, supervisor_start="boot/4", log="/d/log",
    processes=(PROCESS,), coordinators=2,
)  # fmt: skip


@pytest.fixture
def directory(tmp_path: Path) -> ClusterDirectory:
    made = ClusterDirectory(tmp_path / "cluster")
    made.create()
    return made


def test_a_report_is_read_back_as_it_was_written(directory):
    directory.write_report(REPORT)
    assert directory.read_report() == REPORT


def test_prometheus_finds_every_process_that_shows_metrics_under_its_name(directory):
    processes = tuple(
        ProcessReport(
            role=role,
            id=2,
            pid=8,
            start="x",
            address="127.0.0.1:9",
            port=9,
            rpc=None,
            metrics=page,
            log="",
            state="ready",
        )
        for role, page in {
            "etcd": "http://127.0.0.1:5/metrics",
            "broker": "http://127.0.0.1:6/metrics",
            "x": None,
        }.items()
    )
    directory.write_report(replace(REPORT, processes=processes))
    assert json.loads((directory.path / "prometheus-targets.json").read_text()) == [
        {"targets": ["127.0.0.1:5"], "labels": {"job": "etcd", "instance": "etcd-2"}},
        {"targets": ["127.0.0.1:6"], "labels": {"job": "ottla-broker", "instance": "broker-2"}},
    ]


def test_a_report_from_before_there_were_coordinators_is_read():
    document = REPORT.to_document()
    del document["coordinators"]
    assert ClusterReport.from_json(json.dumps(document)).coordinators == 1


def test_there_is_no_report_before_the_first_run(directory):
    assert directory.read_report() is None


def test_a_report_names_each_process_for_people_and_programs():
    document = json.loads(json.dumps(REPORT.to_document()))
    assert document["processes"][0]["name"] == "broker-1"
    assert document["processes"][0]["pid"] == 7


def test_only_one_holds_the_lock(directory):
    with directory.locked(), pytest.raises(DirectoryInUse), ClusterDirectory(directory.path).locked():
        pass
    with directory.locked():
        pass


def test_the_last_lines_of_a_log_are_shown_without_empty_ones(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\n\ntwo\nthree\n")
    assert last_lines(log, 2) == ["two", "three"]
    assert last_lines(tmp_path / "missing", 2) == []


def test_the_default_directory_can_be_named_by_a_variable(monkeypatch):
    monkeypatch.setenv("OTTLA_DIR", "/somewhere")
    assert default_directory() == Path("/somewhere")
    monkeypatch.delenv("OTTLA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", "/share")
    assert default_directory() == Path("/share/ottla/local")


def test_settings_are_kept_for_their_owner_only(tmp_path):
    directory = ClusterDirectory(tmp_path / "cluster")
    directory.create()
    assert directory.read_settings() == []
    directory.write_settings(["broker:a=1", "controller:etcd.password=b=c"])
    directory.write_settings(["broker:a=2"])
    assert directory.read_settings() == ["broker:a=2"]
    assert directory.settings_file.stat().st_mode & 0o077 == 0


def test_what_settings_say_is_for_the_owner_only(directory):
    config = directory.config_of("broker-1")
    config.write_text("of an earlier version\n")
    directory.write_config(config, "sasl.password=secret\n")
    directory.write_settings(["broker:a=b\u2028c"])
    assert config.read_text() == "sasl.password=secret\n"
    assert directory.read_settings() == ["broker:a=b\u2028c"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in (config, directory.settings_file)] == [0o600, 0o600]
