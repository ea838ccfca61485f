"""Bad input is answered or closed as Apache Kafka does it, and other clients see nothing of it.

The probes and their expectations are in `bad_input_probes.py`. While they run, a well-behaved client keeps
publishing and reading on a connection of its own.
"""

import struct

import pytest
from kio.schema.errors import ErrorCode

from tests.conftest import TopicFactory
from tests.support.clients.raw_client import Closed, RawClient, Silence, request_type
from tests.support.clients.raw_requests import end_offset, fetch_request, fetched, produce_request, produced
from tests.support.clusters.broker_under_test import BrokerUnderTest
from tests.support.messages.record_batches import batch_of, read_values
from tests.system.bad_input_probes import BATCH_PROBES, FRAME_PROBES, GOOD_BYTES, BatchProbe, FrameProbe, Reaction

WAITS_AT_LEAST_S = 0.5
UNSUPPORTED_VERSION_ANSWER = bytes.fromhex("00000007 0023 00000001 0012 0000")
INVALID_REQUEST_ANSWER = bytes.fromhex("00000007 002a 01 00000000 00")


@pytest.fixture
def bystander(bootstrap: str, new_topic: TopicFactory):  # type: ignore[no-untyped-def]  # a generator of nothing
    """Another client's connection, which must work the same before and after."""
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        for offset in range(2):
            answer = produced(client.ask(produce_request(topic, batch_of([b"steady"]).encode())))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, offset)
            assert len(read_values(fetched(client.ask(fetch_request(topic, 0))).records)) == offset + 1
            if offset == 0:
                yield


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("probe", FRAME_PROBES, ids=lambda probe: probe.name.replace(" ", "-"))
def test_a_bad_frame_is_answered_or_closed_as_kafka_does(bootstrap: str, probe: FrameProbe) -> None:
    with RawClient.to(bootstrap) as client:
        assert reaction_to(client, probe) is probe.reaction


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("probe", BATCH_PROBES, ids=lambda probe: probe.name.replace(" ", "-"))
def test_a_bad_batch_is_refused_with_kafkas_error(
    broker: BrokerUnderTest, new_topic: TopicFactory, probe: BatchProbe
) -> None:
    topic = new_topic()
    with RawClient.to(broker.bootstrap) as client:
        answer = produced(client.ask(produce_request(topic, probe.records)))
        expected = (probe.code,) if broker.is_reference else (probe.code, *probe.accepted_codes)
        assert answer.error_code in expected
        was_accepted = answer.error_code is ErrorCode.none
        assert (answer.base_offset == 0) is was_accepted
        assert (end_offset(client, topic) > 0) is was_accepted, "what was refused is not in the log"
        good = produced(client.ask(produce_request(topic, GOOD_BYTES)))
        assert good.error_code is ErrorCode.none, "the connection goes on"


def test_null_records_are_refused_or_the_connection_is_closed(bootstrap: str, new_topic: TopicFactory) -> None:
    """Kafka 4.2 never answers this one; that is not worth copying."""
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        try:
            answer = client.ask(produce_request(topic, None), within_s=2)
        except (Closed, Silence):
            return
        assert produced(answer).error_code in {ErrorCode.invalid_record, ErrorCode.corrupt_message}


def test_without_acknowledgements_nothing_is_answered(bootstrap: str, new_topic: TopicFactory) -> None:
    topic = new_topic()
    with RawClient.to(bootstrap) as client:
        client.send_request(produce_request(topic, GOOD_BYTES, acks=0))
        assert end_offset(client, topic) == 3, "the next answer is the next request's"


def test_without_acknowledgements_an_error_closes_the_connection(bootstrap: str, new_topic: TopicFactory) -> None:
    with RawClient.to(bootstrap) as client:
        client.send_request(produce_request(new_topic(), GOOD_BYTES[:-5], acks=0))
        assert client.is_closed()


def test_other_numbers_of_acknowledgements_are_refused(bootstrap: str, new_topic: TopicFactory) -> None:
    with RawClient.to(bootstrap) as client:
        answer = produced(client.ask(produce_request(new_topic(), GOOD_BYTES, acks=2)))
        assert answer.error_code is ErrorCode.invalid_required_acks


def test_requests_before_a_bad_one_are_answered_before_the_connection_closes(bootstrap: str) -> None:
    with RawClient.to(bootstrap) as client:
        client.send_request(request_type(18, 0)())
        client.send_frame(struct.pack(">hhih", 999, 0, 8, -1))
        client.send_request(request_type(18, 0)())
        assert client.read_frame()[:4] == struct.pack(">i", 1)
        assert client.is_closed()


def test_a_connection_goes_on_after_api_versions_of_an_unknown_version(bootstrap: str) -> None:
    with RawClient.to(bootstrap) as client:
        client.send_frame(struct.pack(">hhih", 18, 99, 7, -1) + b"\0")
        assert client.read_frame().startswith(UNSUPPORTED_VERSION_ANSWER)
        assert client.ask(request_type(18, 0)()).error_code is ErrorCode.none


def test_a_record_batch_may_be_as_large_as_max_message_bytes_and_no_larger(
    bootstrap: str, new_topic: TopicFactory
) -> None:
    limit = len(batch_of([bytes(50_000)]).encode())
    topic = new_topic(configs={"max.message.bytes": str(limit)})
    with RawClient.to(bootstrap) as client:
        fits = produced(client.ask(produce_request(topic, batch_of([bytes(50_000)]).encode())))
        assert fits.error_code is ErrorCode.none
        too_large = produced(client.ask(produce_request(topic, batch_of([bytes(50_001)]).encode())))
        assert too_large.error_code is ErrorCode.message_too_large


def reaction_to(client: RawClient, probe: FrameProbe) -> Reaction:
    """Sends the probe's bytes and sorts what comes back."""
    try:
        client.send_bytes(probe.sent)
        if probe.then_half_close:
            client.half_close()
        waiting_s = WAITS_AT_LEAST_S if probe.reaction is Reaction.WAITS else 10.0
        answer = client.read_frame(within_s=waiting_s)
    except Closed:
        return Reaction.CLOSED
    except Silence:
        return Reaction.WAITS
    if answer.startswith(UNSUPPORTED_VERSION_ANSWER) and len(answer) == len(UNSUPPORTED_VERSION_ANSWER) + 2:
        return Reaction.UNSUPPORTED_VERSION
    return Reaction.INVALID_REQUEST if answer == INVALID_REQUEST_ANSWER else Reaction.ANSWERS
