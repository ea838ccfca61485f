"""Every alert fires when it should and stays quiet when it should, by promtool; each has its runbook."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.monitoring.expressions import check, labels_of, selectors
from deploy.monitoring.rules import RULES, alerts, recorded_names, rules
from tests.documents.documents import ROOT
from tests.monitoring.alert_cases import (
    CLUSTER,
    OF_BROKERS,
    OF_ETCD,
    OF_GROUPS,
    OF_PROCESSES,
    OF_REQUESTS,
    Case,
    Series,
)
from tests.monitoring.alert_cases_of_workers import LINKS, MIRROR, OF_CONNECT, SPARK

RUNBOOKS = ROOT / "docs/runbooks.md"
CASES = {
    **CLUSTER, **OF_BROKERS, **OF_REQUESTS, **OF_GROUPS, **OF_PROCESSES, **OF_ETCD,
    **OF_CONNECT, **SPARK, **MIRROR, **LINKS,
}  # fmt: skip
PARTS = ("Meaning", "Affected", "Look at", "Mend")
SEVERITIES = {"critical", "warning"}
ALERTS = {rule["alert"]: rule for rule in alerts()}


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def at(alert: str, series: Series, minutes: int, expected: list[dict[str, Any]]) -> Mapping[str, Any]:
    """One of promtool's tests: what fires at a moment."""
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    question = {"expr": firing, "eval_time": f"{minutes}m", "exp_samples": expected}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [question],
    }


def run(directory: Path, *tests: Mapping[str, Any]) -> None:
    written = directory / "test.yaml"
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": list(tests)}
    written.write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(written))


@pytest.mark.requires("prometheus")
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    promtool("check", "rules", "--lint-fatal", str(RULES))


@pytest.mark.requires("prometheus")
@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_and_does_not_fire(alert: str, tmp_path: Path) -> None:
    case: Case = CASES[alert]
    labels = {
        "alertname": alert, "alertstate": "firing", "severity": ALERTS[alert]["labels"]["severity"], **case.labels
    }  # fmt: skip
    fired = "ALERTS{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
    tests = [
        at(alert, case.fires, case.at_minutes, [{"labels": fired, "value": 1}]),
        at(alert, case.quiet, case.at_minutes, []),
    ]
    if case.hasty_minutes is not None:
        tests.append(at(alert, case.fires, case.hasty_minutes, []))
    run(tmp_path, *tests)


@pytest.mark.requires("prometheus")
def test_a_cluster_whose_only_controller_is_gone_has_no_active_one(tmp_path: Path) -> None:
    expected = 'ALERTS{alertname="OttlaNoActiveController",alertstate="firing",severity="critical",cluster="a"}'
    run(
        tmp_path,
        at(
            "OttlaNoActiveController", {'up{cluster="a",job="ottla-controller",instance="1"}': "0x60"}, 10,
            [{"labels": expected, "value": 1}],
        ),
    )  # fmt: skip


def test_every_alert_is_tried() -> None:
    assert CASES.keys() == ALERTS.keys()


@pytest.mark.parametrize("name", [rule.get("alert") or rule["record"] for rule in rules()])
def test_a_rule_says_what_the_catalogue_defines(name: str) -> None:
    (rule,) = (each for each in rules() if name in (each.get("alert"), each.get("record")))
    check(rule["expr"], recorded_names())


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_how_bad_it_is_and_where_its_runbook_is(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"].keys() == {"severity"}
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{alert.lower()}"


@pytest.mark.parametrize("alert", ALERTS)
def test_texts_name_labels_that_the_alert_has(alert: str) -> None:
    rule = ALERTS[alert]
    named = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    kept = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
    if kept:
        has = {label.strip() for each in kept for label in each.split(",")}
    else:
        of_series = [each.metric for each in selectors(rule["expr"]) if each.metric not in recorded_names()]
        has = {"job", "instance", "cluster", *(label for name in of_series for label in labels_of(name))}
        has |= {"link", "connector"} if len(of_series) < len(selectors(rule["expr"])) else set()
    assert named <= has


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    sections = re.split(r"^## ", RUNBOOKS.read_text(), flags=re.MULTILINE)[1:]
    titles = [section.splitlines()[0] for section in sections]

    assert titles == list(ALERTS)
    lacking = {
        title: missing
        for title, section in zip(titles, sections, strict=True)
        if (missing := [part for part in PARTS if f"**{part}.**" not in section])
    }
    assert lacking == {}
