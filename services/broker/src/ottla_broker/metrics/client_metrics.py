"""Metrics that clients push."""

from ottla_broker.telemetry.client_telemetry import ClientTelemetry
from ottla_core.observe.metrics import Metrics, counted


def show_clients(metrics: Metrics, telemetry: ClientTelemetry) -> None:
    """Show the clients that push, and what they push."""
    metrics.show_value("ottla_broker_client_instances", lambda: len(telemetry.instances))
    metrics.show_value("ottla_broker_client_instance_evictions_total", lambda: telemetry.instances.evictions)
    metrics.show("ottla_broker_client_pushes_total", counted("outcome", telemetry.pushes))
    metrics.show("ottla_broker_client_pushes_forwarded_total", counted("outcome", telemetry.forwarded))
    metrics.show("ottla_broker_client_metric_highest", telemetry.values.highest)
    metrics.show("ottla_broker_client_metric_increase_total", telemetry.values.totals)
    metrics.show_value("ottla_broker_client_metric_values_left_out_total", lambda: telemetry.values.left_out)
