"""Connections that cost and bring nothing: silent ones, slow readers, two thousand idle ones, and fuzzed frames.

Memory is the broker's resident set from /proc. The reference Kafka's heap says nothing about ours, so the memory
bounds are asserted for Ottla only.
"""

import resource
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map

from tests.conftest import TopicFactory
from tests.support.clients.raw_client import Closed, RawClient, Silence, encode_request, request_type
from tests.support.clients.raw_requests import end_offset, fetch_request, metadata_request, produce_request, produced
from tests.support.clusters.broker_under_test import BrokerUnderTest
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK
from tests.support.messages.record_batches import batch_of
from tests.support.requirements import does_not_apply

pytestmark = pytest.mark.slow

IDLE_CONNECTIONS = 2000
IDLE_GROWTH_BYTES_MAX = 60 << 20
SLOW_READERS = 20
SLOW_READER_GROWTH_BYTES_MAX = 80 << 20
FETCHES_PER_SLOW_READER = 50
DECLARED_GROWTH_BYTES_MAX = 64 << 20
FUZZED_FRAMES = 300


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raises this process's own limit of open files for the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_two_thousand_idle_connections_cost_little(broker: BrokerUnderTest, new_topic: TopicFactory) -> None:
    topic = new_topic()
    before = resident_bytes(broker)
    with ExitStack() as held:
        for _ in range(IDLE_CONNECTIONS):
            held.enter_context(RawClient.to(broker.bootstrap))
        assert_works(broker, topic)
        assert_grown_by_at_most(broker, before, IDLE_GROWTH_BYTES_MAX)
    assert_works(broker, topic)


def test_clients_that_say_nothing_or_half_a_frame_hold_nobody_up(
    broker: BrokerUnderTest, new_topic: TopicFactory
) -> None:
    topic = new_topic()
    with RawClient.to(broker.bootstrap), RawClient.to(broker.bootstrap) as halfway:
        halfway.send_bytes(struct.pack(">i", 1000) + b"half")
        assert_works(broker, topic)


def test_large_declared_lengths_reserve_no_memory(broker: BrokerUnderTest, new_topic: TopicFactory) -> None:
    if broker.is_reference:
        does_not_apply("Kafka allocates what a length prefix declares")
    topic = new_topic()
    before = resident_bytes(broker)
    with ExitStack() as held:
        for _ in range(50):
            client = held.enter_context(RawClient.to(broker.bootstrap))
            client.send_bytes(struct.pack(">i", 100 << 20) + bytes(1000))
        assert_works(broker, topic)
        assert_grown_by_at_most(broker, before, DECLARED_GROWTH_BYTES_MAX)


def test_slow_readers_do_not_fill_the_brokers_memory(broker: BrokerUnderTest, new_topic: TopicFactory) -> None:
    topic = new_topic()
    batch = batch_of([b"x" * 500_000]).encode()
    with RawClient.to(broker.bootstrap) as client:
        for _ in range(20):
            assert produced(client.ask(produce_request(topic, batch))).error_code is ErrorCode.none
    before = resident_bytes(broker)
    with ExitStack() as held:
        for _ in range(SLOW_READERS):
            reader = held.enter_context(slow_reader(broker))
            for _ in range(FETCHES_PER_SLOW_READER):
                reader.send_request(fetch_request(topic, 0, bytes_max=10 << 20))
        assert_works(broker, new_topic())
        assert_grown_by_at_most(broker, before, SLOW_READER_GROWTH_BYTES_MAX)


def test_readers_of_small_answers_who_never_read_do_not_fill_the_brokers_memory(
    broker: BrokerUnderTest, new_topic: TopicFactory
) -> None:
    """Answers that come from memory, not from files: the broker must stop reading requests at some point."""
    topic = new_topic(partitions=50)
    before = resident_bytes(broker)
    frame = encode_request(metadata_request(None), 1)
    pipelined = (struct.pack(">i", len(frame)) + frame) * 2000
    with slow_reader(broker) as reader:
        send_until_it_blocks(reader, pipelined, times=200)
        assert_works(broker, topic)
        assert_grown_by_at_most(broker, before, SLOW_READER_GROWTH_BYTES_MAX)


frames = st.one_of(
    st.binary(max_size=200),
    st.tuples(
        st.sampled_from(sorted(api_key_map)), st.integers(-2, 20), st.integers(0, 2**31 - 1), st.binary(max_size=200)
    ).map(lambda parts: struct.pack(">hhih", parts[0], parts[1], parts[2], -1) + parts[3]),
)


@settings(
    max_examples=FUZZED_FRAMES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(frame=frames)
def test_no_frame_disturbs_the_broker(bootstrap: str, frame: bytes) -> None:
    with RawClient.to(bootstrap) as client:
        try:
            client.send_frame(frame)
            client.half_close()
            client.read_frame(within_s=5.0)
        except (Closed, Silence):
            pass
    with RawClient.to(bootstrap) as client:
        assert client.ask(request_type(18, 0)()).error_code is ErrorCode.none


mutations = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6)


@settings(max_examples=FUZZED_FRAMES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=mutations, cut=st.integers(0, 40))
def test_no_mutated_produce_request_disturbs_the_broker(
    bootstrap: str, fuzz_topic: str, changes: list[tuple[int, int]], cut: int
) -> None:
    payload = bytearray(encode_request(produce_request(fuzz_topic, batch_of([b"a", b"b"], key=b"k").encode()), 1))
    for position, value in changes:
        payload[position % len(payload)] = value
    with RawClient.to(bootstrap) as client:
        try:
            client.send_frame(bytes(payload[: len(payload) - cut]))
            client.half_close()
            client.read_frame(within_s=5.0)
        except (Closed, Silence):
            pass
    with RawClient.to(bootstrap) as client:
        assert end_offset(client, fuzz_topic) >= 0


@pytest.fixture
def fuzz_topic(new_topic: TopicFactory) -> str:
    return new_topic()


def slow_reader(broker: BrokerUnderTest) -> RawClient:
    """A connection with a tiny receive buffer that nobody reads from."""
    port = int(broker.bootstrap.rpartition(":")[2])
    return RawClient(LOOPBACK, port, receive_buffer_bytes=4096)


def send_until_it_blocks(reader: RawClient, data: bytes, *, times: int) -> None:
    """Sends the data again and again until the broker takes no more, as it should."""
    reader._socket.settimeout(1.0)
    for _ in range(times):
        try:
            reader._socket.sendall(data)
        except (TimeoutError, ConnectionError):
            return


def assert_works(broker: BrokerUnderTest, topic: str) -> None:
    with RawClient.to(broker.bootstrap) as client:
        answer = produced(client.ask(produce_request(topic, batch_of([b"well"]).encode())))
        assert answer.error_code is ErrorCode.none


def resident_bytes(broker: BrokerUnderTest) -> int:
    """The broker's resident set; 0 where its process is unknown."""
    if broker.pid is None:
        return 0
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def assert_grown_by_at_most(broker: BrokerUnderTest, before: int, limit: int) -> None:
    """Compares with the resident set at some earlier time; the figure is printed for the record."""
    if broker.pid is None or broker.is_reference:
        return
    growth = eventually(lambda: resident_bytes(broker), "the process is there") - before
    print(f"resident set grew by {growth / 2**20:.1f} MiB from {before / 2**20:.1f} MiB")
    assert growth <= limit
