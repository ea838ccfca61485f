"""A call from a broker to the controller is one trace over both processes."""

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.clusters.service_process import SingleBrokerServices
from tests.support.eventually import eventually
from tests.support.servers.span_receiver import ReceivedSpan, SpanReceiver

CREATE_TOPICS = "ottla.controller.v1.Controller/CreateTopics"


def create_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its futures fail once it is gone
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def test_a_call_to_the_controller_is_one_trace_over_two_processes(tmp_path: Path) -> None:
    with SpanReceiver() as receiver:
        traced = {"traces.otlp.endpoint": receiver.url, "traces.sample.ratio": "1"}
        services = SingleBrokerServices(tmp_path, broker_settings=traced, controller_settings=traced)
        with services:
            create_topic(services.broker.bootstrap, "traced")

            def calls() -> dict[str, ReceivedSpan]:
                return {each.service: each for each in receiver.spans if each.span.name == CREATE_TOPICS}

            eventually(lambda: len(calls()) == 2, "both processes have sent their spans")
            caller, answerer = calls()["ottla-broker"], calls()["ottla-controller"]
            assert caller.span.kind == Span.SPAN_KIND_CLIENT
            assert answerer.span.kind == Span.SPAN_KIND_SERVER
            assert answerer.span.trace_id == caller.span.trace_id
            assert answerer.span.parent_span_id == caller.span.span_id
            for each in (caller, answerer):
                assert each.attributes["rpc.response.status_code"] == "OK"
            assert caller.attributes["server.port"] == services.controller.rpc_port
        assert not any("Health" in each.span.name for each in receiver.spans)


def test_what_the_caller_does_not_record_the_answering_process_does_not_either(tmp_path: Path) -> None:
    with SpanReceiver() as receiver:
        endpoint = {"traces.otlp.endpoint": receiver.url}
        services = SingleBrokerServices(
            tmp_path,
            broker_settings={**endpoint, "traces.sample.ratio": "0"},
            controller_settings={**endpoint, "traces.sample.ratio": "1"},
        )
        with services:
            create_topic(services.broker.bootstrap, "untraced")
        # The end of a process sends what is left, so nothing comes later.
        assert receiver.spans == []
