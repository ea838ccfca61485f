"""A real Prometheus that scrapes real clusters answers every query of every panel and rule, and not with nothing."""

import re
from collections.abc import Iterator

import pytest

from deploy.monitoring.dashboard import expressions
from deploy.monitoring.dashboards import DASHBOARDS
from deploy.monitoring.expressions import selectors
from deploy.monitoring.rules import rules
from tests.monitoring.observed_clusters import Prometheus, observed_clusters
from tests.support.eventually import eventually

pytestmark = pytest.mark.requires("prometheus")

DEADLINE_S = 90.0
NEEDS_FAULTS = {
    "ottla_broker_storage_errors_total": "a disk that refuses something",
    "ottla_background_task_failures_total": "a defect",
    "ottla_metrics_series_left_out": "thousands of linked partitions",
    "ottla_metrics_failed_readings_total": "a defect",
    "ottla_broker_link_records_missed_total": "a link that is slower than retention",
    "ottla_coordinator_requests_refused_total": "a shard that moves",
    "ottla_broker_request_errors_total": "a request that is refused",
    "ottla_broker_isr_changes_total": "a follower that falls behind",
}
"""Metrics whose series begin with what is not made to happen here."""
STANDS_STILL = 'ottla_broker_link_partitions{state!~"RUNNING|PAUSED"}'
"""A link that works has no such series; dashboards ask for the metric without the matcher."""
NEEDS_SPARK = re.compile(r"ottla_connect_plugin_reading\{name=~|^output:ottla_spark_lag_records:sum$")
VARIABLE = re.compile(r"\$(?!__)\w+")


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with observed_clusters(tmp_path_factory.mktemp("monitoring")) as running:
        yield running


def as_grafana_asks(expression: str) -> str:
    """The expression with everything chosen."""
    return VARIABLE.sub(".*", expression.replace("$__rate_interval", "10s"))


def needs_more(expression: str) -> bool:
    """Whether a metric in it has no series here, for a reason that is known."""
    return any(
        each.metric in NEEDS_FAULTS or each.text == STANDS_STILL or NEEDS_SPARK.search(each.text)
        for each in selectors(expression)
    )


def questions() -> Iterator[str]:
    """What must have an answer: queries of panels as they are, and each selector of a rule."""
    for dashboard in DASHBOARDS:
        yield from map(as_grafana_asks, expressions(dashboard))
    for rule in rules():
        yield from (selector.text for selector in selectors(rule["expr"]))


def unanswered(prometheus: Prometheus, asked: set[str]) -> set[str]:
    return {expression for expression in asked if not prometheus.query(expression)}


def test_no_query_of_a_panel_and_no_selector_of_a_rule_is_answered_with_nothing(prometheus: Prometheus) -> None:
    waiting = {each for each in questions() if not needs_more(each)}
    assert len(waiting) > 150

    def all_answered() -> bool:
        waiting.intersection_update(unanswered(prometheus, waiting))
        return not waiting

    try:
        eventually(all_answered, "every query has an answer", within_s=DEADLINE_S)
    except AssertionError:
        raise AssertionError("without an answer:\n" + "\n".join(sorted(waiting))) from None


def test_queries_about_what_does_not_happen_here_are_no_errors(prometheus: Prometheus) -> None:
    for expression in questions():
        if needs_more(expression):
            prometheus.query(expression)


def test_prometheus_works_every_rule_out(prometheus: Prometheus) -> None:
    def health() -> dict[str, str]:
        groups = prometheus.ask("rules")["groups"]
        return {rule["name"]: rule.get("lastError", rule["health"]) for group in groups for rule in group["rules"]}

    eventually(lambda: "unknown" not in health().values(), "every rule was worked out", within_s=DEADLINE_S)
    assert set(health().values()) == {"ok"}
    assert health().keys() == {rule.get("alert") or rule["record"] for rule in rules()}


def test_an_alert_is_pending_for_the_task_that_fails(prometheus: Prometheus) -> None:
    pending = 'ALERTS{alertname="OttlaTaskFailed",connector="wrong"}'
    eventually(lambda: prometheus.query(pending), "OttlaTaskFailed is there", within_s=DEADLINE_S)
