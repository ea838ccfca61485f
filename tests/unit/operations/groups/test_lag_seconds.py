"""Seconds of lag, read off a page of metrics as the client library for Prometheus writes it."""

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from ottla_operations.groups.lag_seconds import ask_lag_seconds, read_lag_seconds


@pytest.mark.parametrize("group", ["billing", 'a"b\\n\n} 7', "", "\\", 'x",topic="y"} 3'])
def test_seconds_are_read_whatever_a_group_is_called(group: str) -> None:
    registry = CollectorRegistry()
    name = "ottla_coordinator_group_lag_seconds"
    Gauge(name, "Seconds.", ["group", "topic"], registry=registry).labels(group, "flights").set(1.5)
    Gauge("ottla_coordinator_group_lag_records", "Records.", ["group", "topic"], registry=registry).labels("g", "t")
    assert read_lag_seconds(generate_latest(registry).decode()) == {(group, "flights"): 1.5}


def test_a_page_that_cannot_be_asked_tells_nothing() -> None:
    assert ask_lag_seconds(["file:///etc/hostname", "http://127.0.0.1:1/metrics", "http://["]) == {}
