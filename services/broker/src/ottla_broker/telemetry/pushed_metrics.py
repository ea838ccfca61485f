"""Reading what a client pushes: OTLP's MetricsData in protobuf, packed by one of Kafka's codecs.

A few bytes can unpack to very many, and a megabyte of protobuf can be half a million empty messages, for which its
parser would hold the interpreter, and so the event loop, for half a second. So what comes out of the codec is bounded
first, then the fields are counted by a walk that builds nothing (and lets others run), and only then it is parsed.

This file imports OpenTelemetry's messages, so a broker to which nobody pushes does not import it. It works in a
thread.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError
from kio.schema.errors import ErrorCode
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from ottla_broker.telemetry.client_metric_values import PushedValues
from ottla_core.errors import CodedError, InvalidRecord
from ottla_core.wire.compression import Codec, ExpandsTooFar, decompressed_view

UNPACKED_BYTES_MAX: Final = 4 * 1024 * 1024
FIELDS_MAX: Final = 100_000
"""About ten thousand values; to parse so many takes some ten milliseconds."""
RESOURCES_MAX: Final = 100
"""Distinct resources in a push; each is told the broker's attributes."""
METRIC_NAME_LENGTH_MAX: Final = 200

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX: Final = 10

Nested = Mapping[int, Any]
"""The fields of a message that hold messages, by number, each with its own; some hold themselves."""


def _nested(descriptor: Descriptor, known: dict[str, dict[int, Any]]) -> dict[int, Any]:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    nested = known[descriptor.full_name] = {}
    for field in descriptor.fields:
        if field.message_type is not None:
            nested[field.number] = _nested(field.message_type, known)
    return nested


_METRICS_DATA: Final[Nested] = _nested(MetricsData.DESCRIPTOR, {})


def unpacked_metrics(codec: Codec, packed: bytes) -> MetricsData:
    """Return what a client has pushed.

    Raises:
        InvalidRecord: it cannot be read.
        CodedError: it is more than is taken once it is unpacked (TELEMETRY_TOO_LARGE).
    """
    data = _unpacked(codec, packed)
    check_fields(data)
    try:
        return MetricsData.FromString(data)
    except DecodeError as error:
        raise InvalidRecord(f"The metrics are no MetricsData of OTLP: {error}") from None


def _unpacked(codec: Codec, packed: bytes) -> bytes:
    try:
        data = decompressed_view(codec, packed, size_bytes_max=UNPACKED_BYTES_MAX)
    except ExpandsTooFar:
        raise _too_large(f"unpack to more than {UNPACKED_BYTES_MAX} bytes") from None
    return bytes(data)


def check_fields(data: bytes) -> None:
    """See that a message has no more fields than are taken, those of messages in it included.

    Raises:
        InvalidRecord: it is no protobuf.
        CodedError: it has more (TELEMETRY_TOO_LARGE).
    """
    count = 0
    waiting: list[tuple[int, int, Nested]] = [(0, len(data), _METRICS_DATA)]
    while waiting:
        position, end, nested = waiting.pop()
        while position < end:
            count += 1
            if count > FIELDS_MAX:
                raise _too_large(f"have more than {FIELDS_MAX} fields")
            tag, position = _varint(data, position, end)
            kind = tag & 7
            if kind == _VARINT:
                _, position = _varint(data, position, end)
            elif kind == _LENGTH:
                length, position = _varint(data, position, end)
                if (inner := nested.get(tag >> 3)) is not None and length:
                    waiting.append((position, min(position + length, end), inner))
                position += length
            elif kind in _FIXED_BYTES:
                position += _FIXED_BYTES[kind]
            else:
                raise InvalidRecord(f"The metrics have a field of wire type {kind}, which OTLP does not use")
        if position > end:
            raise InvalidRecord("A field of the metrics is cut short")


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return a number and the position behind it."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        if position >= end:
            raise InvalidRecord("A number in the metrics is cut short")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise InvalidRecord("A number in the metrics is too long")


def _too_large(what: str) -> CodedError:
    return CodedError(ErrorCode.telemetry_too_large, f"The metrics {what}; subscribe to fewer")


def pushed_values(data: MetricsData) -> PushedValues:
    """Return the values of a push by metric.

    Cumulative sums and histograms are left to receivers of OTLP: clients are asked for increases, and Kafka's have
    no histograms.
    """
    highest: defaultdict[str, float] = defaultdict(lambda: -math.inf)
    increases: defaultdict[str, float] = defaultdict(float)
    for metric in _metrics(data):
        name = metric.name[:METRIC_NAME_LENGTH_MAX]
        if metric.HasField("gauge"):
            for value in _finite(metric.gauge.data_points):
                highest[name] = max(highest[name], value)
        elif metric.HasField("sum") and metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA:
            for value in _finite(metric.sum.data_points):
                increases[name] += max(0.0, value)
    return PushedValues(dict(highest), dict(increases))


def _metrics(data: MetricsData) -> Iterator[Metric]:
    for of_resource in data.resource_metrics:
        for of_scope in of_resource.scope_metrics:
            yield from of_scope.metrics


def _finite(points: Any) -> Iterator[float]:
    """Yield the values of data points; clients push NaN for an average of nothing."""
    point: NumberDataPoint
    for point in points:
        value = point.as_double if point.WhichOneof("value") == "as_double" else float(point.as_int)
        if math.isfinite(value):
            yield value


def with_attributes(data: MetricsData, attributes: Mapping[str, str]) -> bytes:
    """Return a push as a request to a receiver of OTLP, in which each resource has attributes more.

    Java's clients send a resource for each metric, all alike; these are joined. The result may be put behind another:
    in protobuf this joins the lists of both.

    Raises:
        CodedError: it has too many different resources (TELEMETRY_TOO_LARGE).
    """
    joined: dict[bytes, ResourceMetrics] = {}
    for each in data.resource_metrics:
        key = each.resource.SerializeToString(deterministic=True)
        known = joined.get(key)
        if known is None:
            if len(joined) >= RESOURCES_MAX:
                raise _too_large(f"have more than {RESOURCES_MAX} resources")
            told = _told(each.resource, attributes)
            known = joined[key] = ResourceMetrics(resource=told, schema_url=each.schema_url)
        known.scope_metrics.extend(each.scope_metrics)
    return MetricsData(resource_metrics=joined.values()).SerializeToString()


def _told(resource: Resource, attributes: Mapping[str, str]) -> Resource:
    """Return a resource with attributes more; they replace what the client says under the same names."""
    own = [each for each in resource.attributes if each.key not in attributes]
    more = [KeyValue(key=name, value=AnyValue(string_value=value)) for name, value in attributes.items()]
    return Resource(attributes=[*own, *more], dropped_attributes_count=resource.dropped_attributes_count)
