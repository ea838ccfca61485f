"""The metrics of a process as a request of OTLP, in protobuf.

Values are cumulative since the process began to show them. Names stay those of Prometheus, so that one dashboard does
for both ways; what has no unit gets none, as receivers that translate to Prometheus make names out of units.

Source: opentelemetry-proto, metrics.proto and metrics_service.proto.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from ottla_core.observe.catalogue.definition import Kind, MetricDefinition, Unit
from ottla_core.observe.histogram import HistogramReading
from ottla_core.observe.metrics import Metrics, Sample

SCOPE: Final = "ottla"


def encode_metrics(metrics: Metrics, began_ns: int, now_ns: int) -> bytes:
    """Return the body of a request that tells all metrics.

    Args:
        metrics: of this process.
        began_ns: since when they count, in nanoseconds since 1970.
        now_ns: the time of the values, likewise.
    """
    described = {"service.name": f"ottla-{metrics.role}", "service.instance.id": metrics.instance}
    told = [_metric(definition, samples, began_ns, now_ns) for definition, samples in metrics.collect() if samples]
    scope = ScopeMetrics(scope=InstrumentationScope(name=SCOPE), metrics=told)
    of_process = ResourceMetrics(resource=Resource(attributes=_attributes(described)), scope_metrics=[scope])
    return ExportMetricsServiceRequest(resource_metrics=[of_process]).SerializeToString()


def _attributes(values: Mapping[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]


def _metric(definition: MetricDefinition, samples: Sequence[Sample], began_ns: int, now_ns: int) -> Metric:
    unit = "" if definition.unit is Unit.ONE else definition.unit.value
    metric = Metric(name=definition.name, description=definition.sentence, unit=unit)
    if definition.kind is Kind.HISTOGRAM:
        points = list(_histogram_points(definition, samples, began_ns, now_ns))
        metric.histogram.CopyFrom(
            Histogram(data_points=points, aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE)
        )
    elif definition.kind is Kind.COUNTER:
        metric.sum.CopyFrom(
            Sum(
                data_points=_number_points(definition, samples, began_ns, now_ns),
                aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE,
                is_monotonic=True,
            )
        )
    else:
        metric.gauge.CopyFrom(Gauge(data_points=_number_points(definition, samples, 0, now_ns)))
    return metric


def _labels(definition: MetricDefinition, sample: Sample) -> list[KeyValue]:
    return _attributes(dict(zip(definition.label_names, sample.label_values, strict=True)))


def _number_points(
    definition: MetricDefinition, samples: Sequence[Sample], began_ns: int, now_ns: int
) -> Iterator[NumberDataPoint]:
    for sample in samples:
        assert not isinstance(sample.value, HistogramReading)
        yield NumberDataPoint(
            attributes=_labels(definition, sample),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            as_double=sample.value,
        )


def _histogram_points(
    definition: MetricDefinition, samples: Sequence[Sample], began_ns: int, now_ns: int
) -> Iterator[HistogramDataPoint]:
    for sample in samples:
        reading = sample.value
        assert isinstance(reading, HistogramReading)
        yield HistogramDataPoint(
            attributes=_labels(definition, sample),
            start_time_unix_nano=began_ns,
            time_unix_nano=now_ns,
            count=reading.count,
            sum=reading.total,
            bucket_counts=reading.counts,
            explicit_bounds=definition.buckets,
        )
