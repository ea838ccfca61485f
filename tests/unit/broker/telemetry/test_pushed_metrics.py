"""What clients push is read within bounds, and goes on with attributes that tell the client."""

import math
import random
from contextlib import suppress

import pytest
from kio.schema.errors import ErrorCode
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from ottla_broker.telemetry.pushed_metrics import (
    FIELDS_MAX,
    RESOURCES_MAX,
    UNPACKED_BYTES_MAX,
    check_fields,
    pushed_values,
    unpacked_metrics,
    with_attributes,
)
from ottla_core.errors import InvalidRecord, KafkaError
from ottla_core.wire.compression import Codec, compress

OTHER_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def points(*values: float) -> list[NumberDataPoint]:
    return [
        NumberDataPoint(as_int=value) if isinstance(value, int) else NumberDataPoint(as_double=value)
        for value in values
    ]


def pushed(*metrics: Metric, attributes: dict[str, str] | None = None) -> MetricsData:
    """A push with a resource for each metric, as Java's clients send it."""
    told = [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in (attributes or {}).items()]
    return MetricsData(
        resource_metrics=[
            ResourceMetrics(resource=Resource(attributes=told), scope_metrics=[ScopeMetrics(metrics=[metric])])
            for metric in metrics
        ]
    )


LATENCY = Metric(name="latency", gauge=Gauge(data_points=points(2.0, 9.5, math.nan)))
SENT = Metric(name="sent", sum=Sum(data_points=points(3, 4), aggregation_temporality=AGGREGATION_TEMPORALITY_DELTA))
EVER = Metric(name="ever", sum=Sum(data_points=points(3), aggregation_temporality=AGGREGATION_TEMPORALITY_CUMULATIVE))


@pytest.mark.parametrize("codec", Codec)
def test_a_push_is_read_in_every_codec(codec: Codec) -> None:
    data = pushed(LATENCY, SENT, EVER)
    assert unpacked_metrics(codec, compress(codec, data.SerializeToString())) == data


def test_gauges_give_their_highest_value_and_increases_their_sum() -> None:
    values = pushed_values(pushed(LATENCY, SENT, EVER))
    assert (dict(values.highest), dict(values.increases)) == ({"latency": 9.5}, {"sent": 7.0})


def test_a_gauge_of_nothing_has_no_value() -> None:
    values = pushed_values(pushed(Metric(name="g", gauge=Gauge(data_points=points(math.nan, math.inf)))))
    assert not values.highest


def test_what_goes_on_tells_the_client_and_resources_that_are_alike_are_one() -> None:
    data = pushed(LATENCY, SENT, attributes={"client_rack": "r1", "client_id": "made up"})
    sent = with_attributes(data, {"client_id": "orders", "broker_id": "1"})
    (resource,) = ExportMetricsServiceRequest.FromString(sent).resource_metrics
    told = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert told == {"client_rack": "r1", "client_id": "orders", "broker_id": "1"}
    assert [each.metrics[0] for each in resource.scope_metrics] == [LATENCY, SENT]


def test_pushes_can_be_put_behind_each_other() -> None:
    first, second = (with_attributes(pushed(each), {}) for each in (LATENCY, SENT))
    assert len(ExportMetricsServiceRequest.FromString(first + second).resource_metrics) == 2


def test_a_push_of_too_many_different_resources_is_refused() -> None:
    data = MetricsData()
    for number in range(RESOURCES_MAX + 1):
        data.MergeFrom(pushed(LATENCY, attributes={"n": str(number)}))
    with pytest.raises(KafkaError) as refused:
        with_attributes(data, {"broker_id": "1"})
    assert refused.value.code is ErrorCode.telemetry_too_large


@pytest.mark.parametrize("codec", OTHER_CODECS)
def test_what_unpacks_to_too_much_is_refused(codec: Codec) -> None:
    name = Metric(name="a" * (UNPACKED_BYTES_MAX + 1), gauge=Gauge(data_points=points(1.0)))
    packed = compress(codec, pushed(name).SerializeToString())
    assert len(packed) < UNPACKED_BYTES_MAX / 10
    with pytest.raises(KafkaError) as refused:
        unpacked_metrics(codec, packed)
    assert refused.value.code is ErrorCode.telemetry_too_large


def nested(numbers: list[int], inner: bytes) -> bytes:
    """Bytes within fields of these numbers, the innermost first."""
    for number in numbers:
        length, head = len(inner), bytes([number << 3 | 2])
        while length > 127:
            head, length = head + bytes([length & 127 | 128]), length >> 7
        inner = head + bytes([length]) + inner
    return inner


@pytest.mark.parametrize(
    ("around", "field"),
    [
        ([], b"\x0a\x00"),
        ([1], b"\x12\x00"),
        ([2, 1], b"\x12\x00"),
        ([5, 2, 2, 1], b"\x0a\x00"),
        ([1, 5, 2, 2, 1], b"\x3a\x00"),
        ([2, 1, 1, 1], b"\x2a\x00"),
        ([5, 2, 1, 1, 1], b"\x0a\x00"),
        ([1], b"\x78\x01"),
    ],
)
def test_a_push_of_too_many_fields_is_refused_before_it_is_parsed(around: list[int], field: bytes) -> None:
    data = nested(around, field * FIELDS_MAX) + b"\x0a\x00"
    with pytest.raises(KafkaError) as refused:
        unpacked_metrics(Codec.NONE, data)
    assert refused.value.code is ErrorCode.telemetry_too_large


@pytest.mark.parametrize(
    "data",
    [
        b"no metrics",
        b"\x0a",
        b"\x0a\x05\x12",
        b"\xff" * 11,
        b"\x0b\x0c",
        b"\x0d\x00",
        nested([1], b"\x12\x7f"),
    ],
)
def test_what_is_no_protobuf_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        unpacked_metrics(Codec.NONE, data)


@pytest.mark.parametrize("codec", OTHER_CODECS)
def test_what_the_codec_cannot_read_is_refused(codec: Codec) -> None:
    with pytest.raises(InvalidRecord):
        unpacked_metrics(codec, b"\x07damaged")


def test_damaged_pushes_are_read_or_refused_and_nothing_else() -> None:
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = pushed(LATENCY, SENT, EVER, attributes={"a": "b"}).SerializeToString()
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(KafkaError):
            pushed_values(unpacked_metrics(Codec.NONE, bytes(data[: chance.randint(1, len(data))])))


def test_the_walk_takes_what_the_parser_takes() -> None:
    check_fields(pushed(LATENCY, SENT, EVER, attributes={"a": "b"}).SerializeToString())
