"""What the processes of a cluster show at their Prometheus pages, compared with the catalogue both ways."""

import json
import subprocess
import urllib.request
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from ottla_core.observe.catalogue import metrics_of
from ottla_core.observe.catalogue.definition import TOTAL, Kind, ProcessRole
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command

OF_HISTOGRAMS = {"le"}


def test_processes_show_what_the_catalogue_defines_and_nothing_else(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster") as running:
        command = [ottla_command(), "topic", "create", "watched", "--bootstrap", running.bootstrap]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        status = [ottla_command(), "status", "--dir", str(running.directory), "--json"]
        document = json.loads(subprocess.run(status, check=True, capture_output=True, timeout=60).stdout)
        pages = {each["role"]: each["metrics"] for each in document["processes"]}
        assert "etcd_server_has_leader" in scraped(pages.pop("etcd"))
        assert pages.keys() == {"broker", "controller", "group-coordinator"}
        for role, url in pages.items():
            scraped(url)  # failures of one scrape show in the next
            compare(ProcessRole(role), scraped(url))


def scraped(url: str) -> dict[str, Metric]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {each.name + (TOTAL if each.type == Kind.COUNTER else ""): each for each in families}


def compare(role: ProcessRole, shown: dict[str, Metric]) -> None:
    defined = metrics_of(role)
    assert shown.keys() == defined.keys(), role
    assert {name: each.type for name, each in shown.items()} == {name: each.kind for name, each in defined.items()}
    for name, metric in shown.items():
        for sample in metric.samples:
            assert sample.labels.keys() - OF_HISTOGRAMS == set(defined[name].label_names), sample
    assert not shown["ottla_metrics_failed_readings_total"].samples, role
