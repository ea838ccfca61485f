"""Mutated requests and record batches against the parsers, for OTTLA_FUZZ_SECONDS (5 by default).

Whatever the bytes, a parser answers or raises the one typed error that closes a connection or refuses a batch; it
never fails otherwise, and never takes long. A failure prints the seed: OTTLA_FUZZ_SEED repeats the run.
"""

import contextlib
import io
import os
import random
import time
from collections.abc import Callable, Iterator

from crc32c import crc32c
from kio.index import load_request_schema
from kio.serial import entity_writer

from ottla_broker.dispatch import APIS
from ottla_broker.log.appends.append_validation import check_batch, check_keys, sole_batch
from ottla_core.errors import InvalidRequest, KafkaError
from ottla_core.topic_config import TopicConfig
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.compression import Codec
from ottla_core.wire.messages import message_codec, read_request_header
from ottla_core.wire.record_batch import ATTRIBUTES_OFFSET, CRC_OFFSET, iterate_batches
from ottla_core.wire.records import Record, encode_batch, iterate_records
from tests.support.messages.random_messages import random_message

DEFAULT_SECONDS = 5.0
CASE_SECONDS_MAX = 2.0
CASES_MIN = 100
"""No timing assertion of speed: a parser that loops over a bogus count of two thousand million takes minutes."""
NAME = TopicPartition("fuzz", 0)


def rounds(share: float) -> Iterator[random.Random]:
    """Yield a random source for each of `CASES_MIN` cases, and more until the time is up; the seed is printed."""
    seed = int(os.environ.get("OTTLA_FUZZ_SEED", "0")) or random.SystemRandom().getrandbits(32)
    print(f"OTTLA_FUZZ_SEED={seed}")
    source = random.Random(seed)
    deadline = time.monotonic() + share * float(os.environ.get("OTTLA_FUZZ_SECONDS", DEFAULT_SECONDS))
    cases = 0
    while time.monotonic() < deadline or cases < CASES_MIN:
        yield random.Random(source.getrandbits(64))
        cases += 1
    print(f"{cases} cases")


def mutated(source: random.Random, content: bytes) -> bytes:
    """Return the bytes with a few of them changed, removed, repeated or replaced by extreme numbers."""
    mutant = bytearray(content)
    for _ in range(source.choice([0, 1, 1, 1, 2, 5])):
        place = source.randrange(len(mutant) + 1)
        match source.randrange(6):
            case 0 if place < len(mutant):
                mutant[place] ^= 1 << source.randrange(8)
            case 1:
                mutant[place : place + 4] = source.choice(
                    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"]
                )
            case 2:
                del mutant[place:]
            case 3:
                del mutant[place : place + source.randrange(1, 9)]
            case 4:
                mutant[place:place] = source.randbytes(source.randrange(1, 40))
            case _:
                mutant[place:place] = mutant[: source.randrange(1, 40)]
    return bytes(mutant)


def random_batch(source: random.Random) -> bytes:
    """Return a well-formed batch with some records in some codec."""
    count = source.randrange(1, 9)
    records = [
        Record(
            offset=number,
            timestamp=1_700_000_000_000 + source.randrange(-5, 5),
            key=source.choice([None, b"", source.randbytes(5)]),
            value=source.choice([None, b"", source.randbytes(source.randrange(300))]),
            headers=tuple(("name", source.choice([None, b"value"])) for _ in range(source.randrange(3))),
        )
        for number in range(count)
    ]
    return encode_batch(records, codec=source.choice(list(Codec)))


def with_right_crc(records: bytes) -> bytes:
    """Return mutated bytes with a CRC that hides the mutation, so that what lies behind the check is reached."""
    return records[:CRC_OFFSET] + crc32c(records[ATTRIBUTES_OFFSET:]).to_bytes(4, "big") + records[ATTRIBUTES_OFFSET:]


def within_bounds(parse: Callable[[], object], *allowed: type[Exception]) -> None:
    started = time.thread_time()  # of this thread alone: what else the machine does is not the parser's fault
    with contextlib.suppress(*allowed):
        parse()
    assert time.thread_time() - started < CASE_SECONDS_MAX


def request_frame(source: random.Random) -> bytes:
    """Return a well-formed request of a random served API and version."""
    api = source.choice(list(APIS.values()))
    version = source.randint(api.oldest, api.newest)
    schema = load_request_schema(api.key, version)
    buffer = io.BytesIO()
    buffer.write(api.key.to_bytes(2, "big") + version.to_bytes(2, "big") + source.randbytes(4))
    buffer.write(b"\0\4fuzz" + (b"\0" if schema.__flexible__ else b""))
    entity_writer(schema)(buffer, random_message(source, schema))
    return buffer.getvalue()


def parse_request(frame: bytes) -> None:
    view = memoryview(frame)
    header = read_request_header(view)
    api = APIS.get(header.api_key)
    if api is None or not api.oldest <= header.api_version <= api.newest:
        return
    codec = message_codec(header.api_key, header.api_version)
    codec.upgrade_request(codec.read_request(view, header))
    if api.reader is not None:
        api.reader(view, codec.body_offset(view, header), header.api_version)


def parse_batches(records: bytes) -> None:
    for header, batch in iterate_batches(records):
        for _ in iterate_records(batch, header):
            pass


def append_checks(records: bytes) -> None:
    view = memoryview(records)
    view = sole_batch(view, NAME)
    header = check_batch(view, TopicConfig(), 1_700_000_000_000, NAME)
    check_keys(view, header, NAME)


def test_a_mutated_request_is_read_or_refused() -> None:
    for source in rounds(0.5):
        frame = mutated(source, request_frame(source))
        within_bounds(lambda frame=frame: parse_request(frame), InvalidRequest)


def test_a_mutated_batch_is_read_or_refused() -> None:
    for source in rounds(0.5):
        records = mutated(source, random_batch(source))
        if source.random() < 0.5:
            records = with_right_crc(records)
        within_bounds(lambda records=records: parse_batches(records), KafkaError)
        within_bounds(lambda records=records: append_checks(records), KafkaError)
