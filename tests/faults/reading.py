"""Records of the load as a reader gets them: their key, number and checksum."""

import zlib
from typing import Any

from confluent_kafka import KafkaError, Message

from tests.faults.access.client_access import NOBODY, ClientAccess
from tests.faults.access.rights import GROUP_OF_READERS
from tests.faults.history import Content
from tests.faults.transactions.transaction_records import TransactionRecord, read_record

LOST_POSITION = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE})
"""What a reader is told whose position is not in the log any more."""


def content_of(message: Message) -> Content:
    """What a record of a numbered producer says."""
    key, value = message.key(), message.value()
    assert isinstance(key, bytes)
    assert isinstance(value, bytes)
    number, _, _ = value.partition(b":")
    return Content(key.decode(), int(number), zlib.crc32(value))


def transactional_record_of(message: Message) -> TransactionRecord:
    """What a record of a transactional writer says."""
    value = message.value()
    assert isinstance(value, bytes)
    return read_record(value)


def settings_of_reader(bootstrap: str, name: str, access: ClientAccess = NOBODY) -> dict[str, Any]:
    """Settings of a consumer without a group that must never be given a wrong offset silently."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "group.id": GROUP_OF_READERS,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
        "socket.timeout.ms": 6000,
        "socket.connection.setup.timeout.ms": 2000,
        "reconnect.backoff.ms": 50,
        # After its re-bootstrap librdkafka 2.16 sometimes asks no broker any more.
        "metadata.recovery.strategy": "none",
        "reconnect.backoff.max.ms": 500,
        "topic.metadata.refresh.interval.ms": 2000,
        "topic.metadata.refresh.fast.interval.ms": 100,
        "log_level": 3,
        **access.client_settings,
    }
