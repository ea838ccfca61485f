"""What brokers show of the metrics that clients push (KIP-714)."""

from typing import Final

from ottla_core.observe.catalogue.definition import Label, MetricDefinition, MetricFamily, ProcessRole

_broker = MetricFamily(ProcessRole.BROKER)

CLIENT = Label("client_id", "id of clients", "the first 49 that push; all others together are _other")
METRIC = Label(
    "metric", "name of the client's metric, as the client pushes it", "the first 100; further ones are left out"
)
OUTCOME = Label("outcome", "taken, or the error that the client is told, as Kafka spells it", "seven")
FORWARDED = Label(
    "outcome",
    "sent: the receiver has taken them; undelivered: it has not; dropped: they found the queue full",
    "three",
)

CLIENT_METRICS: Final[tuple[MetricDefinition, ...]] = (
    _broker.gauge(
        "ottla_broker_client_instances",
        "Clients that have asked lately which metrics to push; nearly all do, whether any are wanted or not.",
    ),
    _broker.counter(
        "ottla_broker_client_instance_evictions_total", "Clients that were forgotten because there were too many."
    ),
    _broker.counter("ottla_broker_client_pushes_total", "Pushes of clients' metrics.", OUTCOME),
    _broker.counter(
        "ottla_broker_client_pushes_forwarded_total", "Pushes of clients' metrics passed on by OTLP.", FORWARDED
    ),
    _broker.gauge(
        "ottla_broker_client_metric_highest",
        "What clients have pushed last of a gauge: the highest value of all clients with this id, and of all "
        "partitions and nodes.",
        CLIENT,
        METRIC,
    ),
    _broker.counter(
        "ottla_broker_client_metric_increase_total",
        "What clients have counted, as pushed to this broker by all clients with this id.",
        CLIENT,
        METRIC,
    ),
    _broker.counter(
        "ottla_broker_client_metric_values_left_out_total",
        "Values in pushes of clients that are not shown here because there are too many metrics.",
    ),
)
