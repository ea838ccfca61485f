"""Topics to be mirrored, filled with ready-made batches: the same few requests again and again.

Batches have about `BATCH_BYTES` on the wire, which is what Java's producers make by default, compressed or not: a
mirror that passes batches on pays by the batch. What a codec can save of a value is a half.
"""

import math
import random
import struct
import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from benchmarks.client import BenchmarkFailed, create_topic, wait_until_served
from ottla_core.wire.compression import Codec
from ottla_core.wire.produce_request import FIRST_FLEXIBLE_VERSION
from ottla_core.wire.raw_produce import PRODUCE_KEY, produce_request_body, read_produce_response
from ottla_core.wire.records import Record, encode_batch
from tests.support.clients.raw_client import RawClient

BATCH_BYTES: Final = 16_384
DIFFERENT_REQUESTS: Final = 16
UNDER_WAY_MAX: Final = 16
TIMEOUT_MS: Final = 30_000
_HEADER: Final = struct.Struct(">hhihb")


def records_per_batch(size: int, codec: str) -> int:
    """Return how many records with values of a size are in a batch."""
    return max(1, BATCH_BYTES * (1 if codec == "none" else 2) // size)


def fill(bootstrap: str, partitions: int, size: int, codec: str, total_bytes: int) -> tuple[str, int]:
    """Publish values of a size, as many bytes in all or a little more; return the topic and the number of records.

    Raises:
        BenchmarkFailed: the broker does not take them.
    """
    topic = create_topic(bootstrap, partitions)
    wait_until_served(bootstrap, topic, partitions)
    per_request = partitions * records_per_batch(size, codec)
    count = math.ceil(total_bytes / size / per_request)
    requests = request_bodies(topic, partitions, size, codec)
    unanswered: deque[int] = deque()
    with RawClient.to(bootstrap) as client:
        for number in range(count):
            header = _HEADER.pack(PRODUCE_KEY, FIRST_FLEXIBLE_VERSION, number, -1, 0)
            body = requests[number % len(requests)]
            client.send_bytes(struct.pack(">i", len(header) + len(body)) + header + body)
            unanswered.append(number)
            if len(unanswered) >= UNDER_WAY_MAX:
                _settle(client, unanswered.popleft())
        for number in unanswered:
            _settle(client, number)
    return topic, count * per_request


def _settle(client: RawClient, number: int) -> None:
    frame = memoryview(client.read_frame())
    if struct.unpack_from(">i", frame)[0] != number:
        raise BenchmarkFailed("the broker answers another request")
    for outcome in read_produce_response(frame, FIRST_FLEXIBLE_VERSION):
        if outcome.error_code is not ErrorCode.none:
            raise BenchmarkFailed(f"cannot publish: {outcome.error_code.name} {outcome.error_message or ''}")


def request_bodies(topic: str, partitions: int, size: int, codec: str) -> list[bytes]:
    """Return what follows the header in requests with a batch for each partition."""
    values = _values(size)
    now_ms = int(time.time() * 1000)
    count = records_per_batch(size, codec)
    bodies = []
    for _ in range(DIFFERENT_REQUESTS):
        batches = [
            (
                partition,
                encode_batch(
                    [Record(n, now_ms, None, next(values), ()) for n in range(count)], codec=Codec[codec.upper()]
                ),
            )
            for partition in range(partitions)
        ]
        body = produce_request_body(FIRST_FLEXIBLE_VERSION, TIMEOUT_MS, {topic: batches}, acks=1)
        bodies.append(b"".join(body))
    return bodies


def _values(size: int) -> Iterator[bytes]:
    source = random.Random(size)
    while True:
        yield source.randbytes(size // 2).ljust(size, b"-")
