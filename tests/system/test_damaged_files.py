"""What a broker makes of files that a crash or a bad disk has damaged: through real broker processes.

Each test publishes numbered values, stops or kills the broker, damages files as named, starts it again and reads.
"""

import struct
from pathlib import Path

import pytest

from tests.support.clients.raw_client import RawClient
from tests.support.clients.raw_requests import (
    end_offset,
    fetch_request,
    fetched,
    list_offsets_request,
    produce_request,
    produced,
)
from tests.support.clusters.broker_under_test import make_topic
from tests.support.clusters.service_process import RestartableBroker
from tests.support.messages.record_batches import TIMESTAMP_MS, batch_of, read_values
from tests.support.reference.reference_kafka import ReferenceKafka
from tests.support.requirements import does_not_apply

pytestmark = pytest.mark.slow

SEGMENT_BYTES = 1 << 20
VALUE_BYTES = 20_000
BATCHES = 150
DAMAGED_OFFSET = 20
DAMAGED_BATCH_POSITION = DAMAGED_OFFSET * len(batch_of([b"".ljust(VALUE_BYTES)]).encode())
DAMAGE_POSITIONS = {"in-a-base-offset": 3, "in-a-batch-length": 9, "in-a-value": 10_000}
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
CLEAN_SHUTDOWN_MARKER = ".kafka_cleanshutdown"


def value_of(offset: int) -> bytes:
    return f"{offset}:".encode().ljust(VALUE_BYTES, b"x")


@pytest.fixture
def topic(restartable_broker: RestartableBroker) -> str:
    """A topic of several small segments that holds `value_of(0)` to `value_of(BATCHES - 1)`, a batch each."""
    broker = restartable_broker
    name = make_topic(broker.bootstrap, configs={"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "100"})
    with RawClient.to(broker.bootstrap) as client:
        for offset in range(BATCHES):
            answer = produced(client.ask(produce_request(name, batch_of([value_of(offset)]).encode())))
            assert (answer.error_code, answer.base_offset) == (0, offset)
    return name


def test_a_torn_tail_is_cut_and_writing_goes_on_behind_it(restartable_broker: RestartableBroker, topic: str) -> None:
    broker = restartable_broker
    broker.kill()
    log = segments(broker, topic)[-1]
    with log.open("ab") as file:
        file.write(batch_of([value_of(BATCHES)]).encode()[:-1000])
    broker.start()
    with RawClient.to(broker.bootstrap) as client:
        assert end_offset(client, topic) == BATCHES
        assert_all_readable(client, topic, BATCHES)
        answer = produced(client.ask(produce_request(topic, batch_of([value_of(BATCHES)]).encode())))
        assert answer.base_offset == BATCHES
        assert_all_readable(client, topic, BATCHES + 1)
    assert_reported(broker, "truncat", "unfinished write")


def test_a_last_batch_cut_short_is_dropped(restartable_broker: RestartableBroker, topic: str) -> None:
    broker = restartable_broker
    broker.kill()
    log = segments(broker, topic)[-1]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 7)
    broker.start()
    with RawClient.to(broker.bootstrap) as client:
        assert end_offset(client, topic) == BATCHES - 1
        assert_all_readable(client, topic, BATCHES - 1)


@pytest.mark.parametrize("damage", ["in-a-value", "in-a-base-offset", "in-a-batch-length"])
def test_a_flipped_bit_in_an_old_segment_is_never_served_as_good(
    restartable_broker: RestartableBroker, topic: str, damage: str
) -> None:
    broker = restartable_broker
    if damage == "in-a-base-offset" and isinstance(broker, ReferenceKafka):
        does_not_apply("Kafka 4.2 takes it for an offset overflow and does not start")
    broker.kill()
    flip_bit(segments(broker, topic)[0], DAMAGED_BATCH_POSITION + DAMAGE_POSITIONS[damage])
    forget_recovery_points(broker.data)
    broker.start()
    with RawClient.to(broker.bootstrap) as client:
        served = readable_offsets(client, topic)
        assert DAMAGED_OFFSET not in served
        assert served[:DAMAGED_OFFSET] == list(range(DAMAGED_OFFSET))
        if not isinstance(broker, ReferenceKafka):  # Kafka drops everything behind the damage too
            assert served[DAMAGED_OFFSET:] == list(range(DAMAGED_OFFSET + 1, BATCHES))
    assert_reported(broker, "truncat", "corrupt", "damaged")


@pytest.mark.parametrize("crashed", [True, False], ids=["after-a-crash", "after-a-clean-stop"])
def test_deleted_index_files_are_rebuilt(restartable_broker: RestartableBroker, topic: str, crashed: bool) -> None:
    broker = restartable_broker
    (broker.kill if crashed else broker.stop)()
    deleted = [path for suffix in ("index", "timeindex") for path in directory_of(broker, topic).glob(f"*.{suffix}")]
    for path in deleted:
        path.unlink()
    broker.start()
    with RawClient.to(broker.bootstrap) as client:
        assert end_offset(client, topic) == BATCHES
        assert_all_readable(client, topic, BATCHES)
        for offset in (0, 1, 77, BATCHES - 1):
            records = fetched(client.ask(fetch_request(topic, offset, bytes_max=100))).records
            assert struct.unpack_from(">q", records)[0] == offset
        by_time = client.ask(list_offsets_request(topic, TIMESTAMP_MS)).topics[0].partitions[0]
        assert by_time.offset == 0
    assert all(path.exists() and path.stat().st_size > 0 for path in deleted[:-2])


def test_a_clean_stop_and_start_changes_nothing(restartable_broker: RestartableBroker, topic: str) -> None:
    broker = restartable_broker
    before = {path.name: path.read_bytes() for path in segments(broker, topic)}
    broker.stop()
    broker.start()
    with RawClient.to(broker.bootstrap) as client:
        assert end_offset(client, topic) == BATCHES
    assert {path.name: path.read_bytes() for path in segments(broker, topic)} == before


def assert_all_readable(client: RawClient, topic: str, end: int) -> None:
    """Every offset up to the end can be read and has the value that was published there."""
    assert readable_offsets(client, topic) == list(range(end))


def readable_offsets(client: RawClient, topic: str) -> list[int]:
    """The offsets that a reader gets, in order; each must hold the value that was published there."""
    offsets: list[int] = []
    end = end_offset(client, topic)
    while not offsets or offsets[-1] + 1 < end:
        answer = fetched(client.ask(fetch_request(topic, offsets[-1] + 1 if offsets else 0)))
        assert answer.error_code == 0
        values = read_values(answer.records)
        assert values, f"nothing behind {offsets[-1:]} although the log ends at {end}"
        for offset, value in values:
            assert value == value_of(offset), f"offset {offset} holds another value"
            offsets.append(offset)
    assert offsets == sorted(set(offsets))
    return offsets


def assert_reported(broker: RestartableBroker, *words: str) -> None:
    """The broker's log tells of the damage, in Kafka's words or in ours."""
    text = broker.process.log.read_text().lower()
    assert any(word in text for word in words), text


def directory_of(broker: RestartableBroker, topic: str) -> Path:
    return broker.data / f"{topic}-0"


def segments(broker: RestartableBroker, topic: str) -> list[Path]:
    logs = sorted(directory_of(broker, topic).glob("*.log"))
    assert len(logs) > 1, "no segment was rolled"
    return logs


def flip_bit(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def forget_recovery_points(data: Path) -> None:
    """Makes the next start recover every segment, as after a crash of the whole machine."""
    (data / RECOVERY_POINTS).unlink(missing_ok=True)
    (data / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)
