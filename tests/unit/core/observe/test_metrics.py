"""Processes show what the catalogue defines, in full and within bounds, at their Prometheus page."""

import urllib.request
from collections.abc import Iterator, Mapping

import pytest

from ottla_core.config import HostPort, MetricsSettings
from ottla_core.observe import metrics as metrics_module
from ottla_core.observe.catalogue import CATALOGUE, SECTIONS, metrics_of
from ottla_core.observe.catalogue.definition import Kind, MetricFamily, ProcessRole, Unit
from ottla_core.observe.catalogue.process import KERNEL
from ottla_core.observe.histogram import TIME_BUCKETS, HistogramReading, TimeHistogram
from ottla_core.observe.metrics import NO_LABELS, Metrics, Value
from ottla_core.observe.prometheus_page import prometheus_metric
from ottla_core.observe.publishing import publish_metrics
from tests.support.free_ports import free_port_block

LEADS = "ottla_controller_leads"
SERIES = "ottla_broker_link_partitions"


def shown(metrics: Metrics) -> Mapping[str, Mapping[tuple[str, ...], Value]]:
    return {
        definition.name: {tuple(sample.label_values): sample.value for sample in samples}
        for definition, samples in metrics.collect()
    }


def test_what_the_catalogue_does_not_define_for_a_process_cannot_be_shown() -> None:
    metrics = Metrics(ProcessRole.CONTROLLER, "1")
    for name in ("ottla_controller_moons", "ottla_broker_connections"):
        with pytest.raises(AssertionError, match=f"no metric {name}"):
            metrics.show_value(name, lambda: 1)


def test_a_process_does_not_start_that_shows_less_than_the_catalogue_defines() -> None:
    metrics = Metrics(ProcessRole.CONTROLLER, "1")
    with pytest.raises(AssertionError, match=LEADS):
        publish_metrics(metrics, MetricsSettings())


def test_names_and_sections_are_those_of_prometheus() -> None:
    assert sum(len(section.definitions) for section in SECTIONS) == len(CATALOGUE)
    assert all(metrics_of(role) for role in ProcessRole)
    assert CATALOGUE["ottla_broker_log_size_bytes"].unit is Unit.BYTES
    assert CATALOGUE["ottla_coordinator_load_time_seconds_total"].unit is Unit.SECONDS
    with pytest.raises(AssertionError):
        MetricFamily(ProcessRole.BROKER).counter("ottla_broker_things", "A counter without its suffix.")


def test_a_metric_has_a_bounded_number_of_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "SERIES_MAX", 2)
    metrics = Metrics(ProcessRole.BROKER, "1")
    links = ["a", "b", "c"]
    metrics.show(SERIES, lambda: [(1, {"state": "x", "link": link}) for link in links])
    found = shown(metrics)
    assert found[SERIES] == {("a", "x"): 1, ("b", "x"): 1}
    # Tasks that have failed in tests before may have more series than these two as well.
    assert shown(metrics)["ottla_metrics_series_left_out"][SERIES,] == 1
    links.pop()
    shown(metrics)
    assert (SERIES,) not in shown(metrics)["ottla_metrics_series_left_out"]


def test_a_metric_that_cannot_be_read_costs_no_other() -> None:
    metrics = Metrics(ProcessRole.CONTROLLER, "1")

    def fail() -> float:
        raise KeyError("gone")

    metrics.show_value(LEADS, fail)
    metrics.show_value("ottla_controller_topics", lambda: 7)
    found = shown(metrics)
    assert found[LEADS] == {}
    assert found["ottla_controller_topics"] == {(): 7}
    assert shown(metrics)["ottla_metrics_failed_readings_total"] == {(LEADS,): 1}


def test_what_changes_while_it_is_read_is_read_again() -> None:
    attempts = []

    def read() -> Iterator[tuple[float, Mapping[str, str]]]:
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        yield 5, NO_LABELS

    metrics = Metrics(ProcessRole.CONTROLLER, "1")
    metrics.show(LEADS, read)
    assert shown(metrics)[LEADS] == {(): 5}


def test_times_are_counted_in_the_bucket_that_holds_them() -> None:
    histogram = TimeHistogram()
    for seconds in (0.0, 50e-6, 70e-6, 0.1, 30.0, 100.0, -1.0):
        histogram.add_s(seconds)
    reading = histogram.reading()
    assert len(reading.counts) == len(TIME_BUCKETS) + 1
    assert reading.count == 7
    up_to = dict(zip(TIME_BUCKETS, reading.cumulative, strict=False))
    for bound, count in up_to.items():
        assert count == sum(time <= bound for time in (0.0, 50e-6, 70e-6, 0.1, 30.0, 100.0, 0.0)), bound
    assert reading.total == pytest.approx(130.10012)


def test_prometheus_gets_histograms_with_their_buckets() -> None:
    definition = MetricFamily(ProcessRole.BROKER).histogram("ottla_test_time_seconds", "Times.", (0.5, 1.0))
    assert definition.kind is Kind.HISTOGRAM
    sample = metrics_module.Sample((), HistogramReading((3, 2, 1), 4.5))
    lines = {
        each.name + each.labels.get("le", ""): each.value for each in prometheus_metric(definition, [sample]).samples
    }
    assert lines == {
        "ottla_test_time_seconds_bucket0.5": 3,
        "ottla_test_time_seconds_bucket1.0": 5,
        "ottla_test_time_seconds_bucket+Inf": 6,
        "ottla_test_time_seconds_count": 6,
        "ottla_test_time_seconds_sum": 4.5,
    }


async def test_the_page_shows_every_metric_under_its_name_and_kind() -> None:
    port = free_port_block(1)
    metrics = Metrics(ProcessRole.CONTROLLER, "1")
    by_kernel = {definition.name for definition in KERNEL}
    by_publishing = {*by_kernel, "ottla_event_loop_delay_seconds", "ottla_metrics_otlp_pushes_total"}
    for name in metrics_of(ProcessRole.CONTROLLER).keys() - metrics._readers.keys() - by_publishing:
        metrics.show_value(name, lambda: 3)
    with (
        publish_metrics(metrics, MetricsSettings(metrics_listener=HostPort("127.0.0.1", port))),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        lines = answer.read().decode().splitlines()
    types = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ")}
    assert types == {name: each.kind for name, each in metrics_of(ProcessRole.CONTROLLER).items()}
    assert f"{LEADS} 3.0" in lines
    told = {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith("process_")}
    assert told.keys() == by_kernel
    assert all(value > 0 for value in told.values())
