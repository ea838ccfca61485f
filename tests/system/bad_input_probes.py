"""Bad input and what Apache Kafka 4.2 does with it, measured; each probe's expectation is Kafka's behaviour.

A *frame probe* is bytes on a fresh connection and one of four reactions. A *batch probe* is the records field of a
Produce request and the error code in its answer; where Ottla deliberately differs from Kafka (Kafka answers with an
internal error or not at all) the probe says so.
"""

import gzip
import random
import struct
from dataclasses import dataclass, replace
from enum import Enum

from kio.schema.errors import ErrorCode

from tests.support.messages.record_batches import Batch, batch_of, old_message, record, varint

REQUEST_BYTES_MAX = 100 * 1024 * 1024
API_VERSIONS, METADATA, PRODUCE, FETCH = 18, 3, 0, 1


class Reaction(Enum):
    """What the broker does with a connection that brought bad input."""

    CLOSED = "closes the connection without an answer"
    WAITS = "waits for more bytes"
    ANSWERS = "answers as if nothing were wrong"
    UNSUPPORTED_VERSION = "answers ApiVersions in the v0 form with error 35"
    INVALID_REQUEST = "answers ApiVersions with error 42"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameProbe:
    """Bytes for a fresh connection.

    Attributes:
        sent: everything that is sent, length prefixes included.
        then_half_close: whether the client then says that no more will come.
    """

    name: str
    sent: bytes
    reaction: Reaction
    then_half_close: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProbe:
    """The records of a Produce request for a topic without compaction.

    Attributes:
        code: what Kafka answers.
        accepted_codes: further codes that are as good; filled in only where Kafka answers with its own bug.
    """

    name: str
    records: bytes | None
    code: ErrorCode
    accepted_codes: tuple[ErrorCode, ...] = ()


def frame(payload: bytes) -> bytes:
    """A payload with its length in front."""
    return struct.pack(">i", len(payload)) + payload


def header(api_key: int, version: int, *, flexible: bool = False, client_id: bytes | None = b"probe") -> bytes:
    """A request header with correlation id 7."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", api_key, version, 7) + name + (b"\0" if flexible else b"")


def request(api_key: int, version: int, body: bytes = b"", *, flexible: bool = False) -> bytes:
    return frame(header(api_key, version, flexible=flexible) + body)


RANDOM = random.Random(20_26)  # bytes for a test, not a secret
UNPARSABLE = (
    ("64 random bytes", RANDOM.randbytes(64)),
    ("a frame of 64 random bytes", frame(RANDOM.randbytes(64))),
    ("an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("a TLS client hello", bytes.fromhex("16030102000100 01fc0303") + RANDOM.randbytes(500)),
    ("an empty frame", frame(b"")),
    ("a frame of one byte", frame(b"\0")),
    ("a frame that ends in the header", frame(b"\0\x12\0\0\0\0\0")),
    ("a client id longer than the frame", frame(struct.pack(">hhih", API_VERSIONS, 0, 7, 32767) + b"x")),
    ("a body cut short", request(API_VERSIONS, 3, b"\x05a", flexible=True)),
    ("no body where one must be", request(METADATA, 1)),
    ("an array longer than the frame", request(METADATA, 1, b"\x7f\xff\xff\xff")),
    ("a compact array longer than the frame", request(METADATA, 12, b"\xff\xff\xff\xff\x07", flexible=True)),
    ("an overlong varint", request(METADATA, 12, b"\xff" * 7, flexible=True)),
)
UNKNOWN_APIS = tuple(
    (f"API {api_key} version {version}", request(api_key, version))
    for api_key, version in (
        *((999, 0), (-1, 0), (32767, 0), (93, 0), (4, 0), (5, 0), (6, 0), (7, 0), (52, 0), (67, 0)),
        *((METADATA, 99), (METADATA, -1), (PRODUCE, 99), (PRODUCE, 0), (PRODUCE, 2), (FETCH, 3), (FETCH, 99)),
    )
)
BAD_LENGTHS = (
    ("a length of -1", struct.pack(">i", -1)),
    ("a length of -2 GiB", struct.pack(">i", -(2**31))),
    ("a length of 2 GiB", struct.pack(">i", 2**31 - 1) + b"x" * 100),
    ("a length just above the limit", struct.pack(">i", REQUEST_BYTES_MAX + 1) + b"x" * 100),
)

FRAME_PROBES = (
    *(FrameProbe(name=name, sent=sent, reaction=Reaction.CLOSED) for name, sent in UNPARSABLE),
    *(FrameProbe(name=name, sent=sent, reaction=Reaction.CLOSED) for name, sent in UNKNOWN_APIS),
    *(FrameProbe(name=name, sent=sent, reaction=Reaction.CLOSED) for name, sent in BAD_LENGTHS),
    FrameProbe(
        name="a truncated frame, then the end",
        sent=struct.pack(">i", 100) + b"x" * 10,
        reaction=Reaction.CLOSED,
        then_half_close=True,
    ),
    FrameProbe(name="half a length, then the end", sent=b"\0\0", reaction=Reaction.CLOSED, then_half_close=True),
    FrameProbe(name="a truncated frame", sent=struct.pack(">i", 100) + b"x" * 10, reaction=Reaction.WAITS),
    FrameProbe(
        name="the beginning of the largest frame allowed",
        sent=struct.pack(">i", REQUEST_BYTES_MAX) + b"x" * 100,
        reaction=Reaction.WAITS,
    ),
    FrameProbe(name="nothing", sent=b"", reaction=Reaction.WAITS),
    *(
        FrameProbe(
            name=f"ApiVersions version {version}",
            sent=request(API_VERSIONS, version, flexible=version >= 3),
            reaction=Reaction.UNSUPPORTED_VERSION,
        )
        for version in (5, 99, -1)
    ),
    FrameProbe(
        name="ApiVersions with an empty software name",
        sent=request(API_VERSIONS, 3, b"\x01\x01\x00", flexible=True),
        reaction=Reaction.INVALID_REQUEST,
    ),
    FrameProbe(
        name="ApiVersions with an invalid software name",
        sent=request(API_VERSIONS, 3, b"\x03@@\x021\x00", flexible=True),
        reaction=Reaction.INVALID_REQUEST,
    ),
    FrameProbe(name="bytes behind the body", sent=request(API_VERSIONS, 0, b"more"), reaction=Reaction.ANSWERS),
    FrameProbe(
        name="a client id that is no UTF-8",
        sent=frame(header(API_VERSIONS, 0, client_id=b"\xff\xfe")),
        reaction=Reaction.ANSWERS,
    ),
    FrameProbe(
        name="a null client id", sent=frame(header(API_VERSIONS, 0, client_id=None)), reaction=Reaction.ANSWERS
    ),
)

GOOD = batch_of([b"a", b"b", b"c"])
GOOD_BYTES = GOOD.encode()
FLIPPED = GOOD_BYTES[:-1] + bytes([GOOD_BYTES[-1] ^ 1])
ZIPPED = replace(GOOD, attributes=1, records=gzip.compress(GOOD.records))
ONE = batch_of([b"a"])

CORRUPT: tuple[tuple[str, bytes], ...] = (
    ("61 zero bytes", bytes(61)),
    ("random bytes", RANDOM.randbytes(200)),
    ("a wrong CRC", replace(GOOD, crc=1).encode()),
    ("a flipped bit in the last record", FLIPPED),
    ("magic 3", replace(GOOD, magic=3).encode()),
    ("magic -1", replace(GOOD, magic=-1).encode()),
    ("a batch length of 0", replace(GOOD, batch_length=0).encode()),
    ("a batch length of -1", replace(GOOD, batch_length=-1).encode()),
    ("a batch length one too short", replace(GOOD, batch_length=len(GOOD_BYTES) - 13).encode()),
)
INVALID: tuple[tuple[str, bytes], ...] = (
    ("no records", b""),
    ("10 bytes", b"x" * 10),
    ("a message of magic 0", old_message(b"v", magic=0)),
    ("a message of magic 1", old_message(b"v", magic=1)),
    ("a good batch and an old message", GOOD_BYTES + old_message(b"v", magic=1)),
    ("a batch cut short", GOOD_BYTES[:-5]),
    ("a batch length one too long", replace(GOOD, batch_length=len(GOOD_BYTES) - 11).encode()),
    ("two batches", GOOD_BYTES * 2),
    ("a record count too high", replace(GOOD, record_count=4).encode()),
    ("a record count too low", replace(GOOD, record_count=2).encode()),
    ("a record count of 0", replace(GOOD, record_count=0).encode()),
    ("a negative record count", replace(GOOD, record_count=-1).encode()),
    ("a record count of 2^31 - 1", replace(GOOD, record_count=2**31 - 1).encode()),
    ("a last offset delta too low", replace(GOOD, last_offset_delta=1).encode()),
    ("a last offset delta too high", replace(GOOD, last_offset_delta=5).encode()),
    ("a negative last offset delta", replace(GOOD, last_offset_delta=-1).encode()),
    ("a batch without records", batch_of([]).encode()),
    ("a base offset above 0", replace(GOOD, base_offset=100).encode()),
    ("a base offset below 0", replace(GOOD, base_offset=-5).encode()),
    ("a control batch", replace(GOOD, attributes=0x20).encode()),
    ("a producer id without an epoch", replace(GOOD, producer_id=5).encode()),
    ("a producer id without a sequence", replace(GOOD, producer_id=5, producer_epoch=0).encode()),
)
# Ottla never unpacks the records of a batch (DESIGN, "Batches are opaque"): header and deltas agree with each other
# here and only the records inside contradict them, which Kafka notices and Ottla passes on as it came.
INSIDE: tuple[tuple[str, Batch], ...] = (
    ("one record more than there are", replace(GOOD, record_count=4, last_offset_delta=3)),
    ("one record fewer than there are", replace(GOOD, record_count=2, last_offset_delta=1)),
    ("one zipped record more than there are", replace(ZIPPED, record_count=4, last_offset_delta=3)),
    ("a record longer than the batch", replace(ONE, records=varint(3000) + b"xxx")),
    ("a record of negative length", replace(ONE, records=varint(-3) + b"xxx")),
)
ACCEPTED: tuple[tuple[str, bytes], ...] = (
    ("a good batch", GOOD_BYTES),
    ("a good zipped batch", ZIPPED.encode()),
    ("any partition leader epoch", replace(GOOD, partition_leader_epoch=77).encode()),
    ("a timestamp of -1", replace(GOOD, base_timestamp_ms=-1, max_timestamp_ms=-1).encode()),
    ("reserved attribute bits", replace(GOOD, attributes=0x80).encode()),
    ("a few bytes behind the batch", GOOD_BYTES + bytes(5)),
    (
        "inner offset deltas with a gap",
        replace(
            ONE, records=record(b"a") + record(b"b", offset_delta=5), record_count=2, last_offset_delta=1
        ).encode(),
    ),
)

BATCH_PROBES = (
    *(BatchProbe(name=name, records=records, code=ErrorCode.corrupt_message) for name, records in CORRUPT),
    *(BatchProbe(name=name, records=records, code=ErrorCode.invalid_record) for name, records in INVALID),
    *(
        BatchProbe(
            name=name,
            records=batch.encode(),
            code=ErrorCode.invalid_record,
            # Ottla does not unpack compressed records, so it cannot count them.
            accepted_codes=(ErrorCode.none,) if batch.attributes else (),
        )
        for name, batch in INSIDE
    ),
    *(BatchProbe(name=name, records=records, code=ErrorCode.none) for name, records in ACCEPTED),
    *(
        BatchProbe(
            name=f"plain records said to be of codec {codec}",
            records=replace(GOOD, attributes=codec).encode(),
            code=ErrorCode.unknown_server_error,
            # Raw snappy has no mark by which it could be known.
            accepted_codes=(ErrorCode.none,) if codec == 2 else (ErrorCode.invalid_record,),
        )
        for codec in (1, 2, 3, 4)
    ),
    *(
        BatchProbe(
            name=f"a codec that does not exist: {codec}",
            records=replace(GOOD, attributes=codec).encode(),
            code=ErrorCode.unknown_server_error,
            accepted_codes=(
                ErrorCode.unsupported_compression_type,
                ErrorCode.corrupt_message,
                ErrorCode.invalid_record,
            ),
        )
        for codec in (5, 6, 7)
    ),
    BatchProbe(
        name="a batch length of 2 GiB",
        records=replace(GOOD, batch_length=2**31 - 1).encode(),
        code=ErrorCode.unknown_server_error,
        accepted_codes=(ErrorCode.corrupt_message, ErrorCode.invalid_record),
    ),
    BatchProbe(
        name="a transactional batch without a transactional id",
        records=replace(GOOD, attributes=0x10).encode(),
        code=ErrorCode.transactional_id_authorization_failed,
        accepted_codes=(ErrorCode.invalid_record, ErrorCode.invalid_txn_state),
    ),
    BatchProbe(
        name="30 zero bytes behind a batch",
        records=GOOD_BYTES + bytes(30),
        code=ErrorCode.corrupt_message,
        accepted_codes=(ErrorCode.invalid_record,),
    ),
)
