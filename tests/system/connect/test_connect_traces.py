"""A trace goes from a source task through the record's header to the sink task."""

from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.clusters.service_process import SingleBrokerServices
from tests.support.connect.connect_cluster import ConnectCluster
from tests.support.eventually import eventually
from tests.support.servers.span_receiver import ReceivedSpan, SpanReceiver

LINES = [f"line {number}" for number in range(3)]
ONE_OFFSETS_REPLICA = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "1"}
SHORT_SESSIONS = {"group.min.session.timeout.ms": "1000"}
ONE_REPLICA = {f"{store}.storage.replication.factor": "1" for store in ("config", "offset", "status")}


def headers_of(bootstrap: str, topic: str) -> list[dict[str, bytes]]:
    """The headers of the topic's records, once all lines are there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"see-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[dict[str, bytes]] = []

    def read() -> bool:
        for message in consumer.consume(10, 1.0):
            assert message.error() is None
            found.append(dict(message.headers() or ()))
        return len(found) >= len(LINES)

    try:
        eventually(read, "all lines are in the topic")
    finally:
        consumer.close()
    return found


def run_connectors(connect: ConnectCluster, directory: Path, topic: str) -> None:
    lines, written = directory / f"{topic}.txt", directory / f"{topic}.out"
    written.mkdir()
    lines.write_text("".join(f"{line}\n" for line in LINES))
    text = {"value.converter": "StringConverter"}
    connect.put_connector(
        "from", {"connector.class": "ottla_file.FileSource", "file.path": str(lines), "topic": topic, **text}
    )
    connect.put_connector(
        "to", {"connector.class": "ottla_file.FileSink", "file.directory": str(written), "topics": topic, **text}
    )


def test_one_trace_leads_from_the_source_through_the_header_to_the_sink(tmp_path: Path) -> None:
    with (
        SpanReceiver() as receiver,
        SingleBrokerServices(
            tmp_path, coordinators=1, broker_settings=ONE_OFFSETS_REPLICA, coordinator_settings=SHORT_SESSIONS
        ) as services,
    ):
        bootstrap = services.broker.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for topic in ("traced", "untraced"):
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        settings = {**ONE_REPLICA, "traces.otlp.endpoint": receiver.url}

        with ConnectCluster(tmp_path, bootstrap, workers=1, settings={**settings, "traces.sample.ratio": "1"}) as one:
            run_connectors(one, tmp_path, "traced")

            def spans() -> tuple[ReceivedSpan, ReceivedSpan] | None:
                named = {each.span.name: each for each in receiver.spans}
                found = named.get("publish traced"), named.get("process traced")
                return (found[0], found[1]) if found[0] and found[1] else None

            source, sink = eventually(spans, "both tasks have sent their spans")
            (header,) = {each["traceparent"] for each in headers_of(bootstrap, "traced")}
            for name in ("from", "to"):
                one.request("DELETE", f"/connectors/{name}")
        assert header.decode().startswith(f"00-{source.span.trace_id.hex()}-{source.span.span_id.hex()}-0")
        assert (source.span.kind, sink.span.kind) == (Span.SPAN_KIND_PRODUCER, Span.SPAN_KIND_CONSUMER)
        assert (sink.span.trace_id, sink.span.parent_span_id) == (source.span.trace_id, source.span.span_id)
        assert [link.span_id for link in sink.span.links] == [source.span.span_id]
        assert source.attributes["messaging.system"] == "kafka"
        assert sink.attributes["messaging.destination.name"] == "traced"

        before = len(receiver.spans)
        with ConnectCluster(
            tmp_path, bootstrap, workers=1, settings={**settings, "traces.sample.ratio": "0"}
        ) as none:
            run_connectors(none, tmp_path, "untraced")
            assert headers_of(bootstrap, "untraced") == [{}] * len(LINES)
        assert len(receiver.spans) == before
