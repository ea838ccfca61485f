"""Many requests of one small record: what a request costs the broker, apart from its bytes.

The raw client sends frames that were encoded beforehand and checks the error code of every answer. `serial` waits for
each answer before the next request; `pipelined` keeps sixteen requests on the way, as a client under load does. The
third variant is librdkafka told not to batch.
"""

import socket
import struct
import time
from datetime import timedelta
from typing import Any

import crc32c
from kio.schema.errors import ErrorCode
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.produce.v9.response import ProduceResponse

from benchmarks.client import BenchmarkFailed, CpuMeter, Subject
from benchmarks.floor_wire import write_uvarint
from benchmarks.summary import percentiles
from benchmarks.throughput import Load, produce
from tests.support.clients.raw_client import decode_response, encode_request

RECORD_BYTES = 100
PIPELINE_DEPTH = 16
RECEIVE_BYTES = 64 * 1024
TIMEOUT_S = 30.0
UNBATCHED = {"linger.ms": "0", "batch.num.messages": "1", "max.in.flight": str(PIPELINE_DEPTH)}


def one_record_batch(value: bytes) -> bytes:
    """Return a v2 record batch of one record without key and headers, timestamped now."""
    record = b"\0\0\0\1" + write_uvarint(2 * len(value)) + value + b"\0"
    now_ms = time.time_ns() // 1_000_000
    checked = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + write_uvarint(2 * len(record)) + record
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c.crc32c(checked)) + checked


def produce_frame(topic: str, batch: bytes) -> bytes:
    """Return the frame of a Produce request (v9, acks=1), with its length."""
    request: Any = ProduceRequest(
        acks=1,  # type: ignore[arg-type]  # kio's number types are checked when they are written
        timeout=timedelta(seconds=TIMEOUT_S),  # type: ignore[arg-type]
        topic_data=(
            TopicProduceData(
                name=topic,  # type: ignore[arg-type]
                partition_data=(PartitionProduceData(index=0, records=batch),),  # type: ignore[arg-type]
            ),
        ),
    )
    payload = encode_request(request, 1)
    return struct.pack(">i", len(payload)) + payload


def serial(subject: Subject, topic: str, requests: int) -> dict[str, float]:
    """One request after the other; also tells how long an answer takes."""
    frame = _frame_for(topic)
    waits_ms = []
    with _connect(subject) as sock:
        answer_size = _first_answer(sock, frame)
        buffer = bytearray(answer_size)
        meter = CpuMeter(subject)
        for _ in range(requests):
            sent_s = time.perf_counter()
            sock.sendall(frame)
            if sock.recv_into(buffer, answer_size, socket.MSG_WAITALL) != answer_size:
                raise BenchmarkFailed("the broker closed the connection")
            waits_ms.append((time.perf_counter() - sent_s) * 1000)
        figures = _figures(meter, requests)
    check_answer(bytes(buffer))
    return {**figures, **percentiles(waits_ms, "answer_{}_ms")}


def pipelined(subject: Subject, topic: str, requests: int) -> dict[str, float]:
    """Sixteen requests on the way at all times: each answer that arrives lets one more go."""
    frame = _frame_for(topic)
    with _connect(subject) as sock:
        answer_size = _first_answer(sock, frame)
        rest = b""
        sent, answered = PIPELINE_DEPTH, 0
        meter = CpuMeter(subject)
        sock.sendall(frame * PIPELINE_DEPTH)
        while answered < requests:
            received = sock.recv(RECEIVE_BYTES)
            if not received:
                raise BenchmarkFailed("the broker closed the connection")
            rest += received
            count = len(rest) // answer_size
            last_answer, rest = rest[: count * answer_size][-answer_size:], rest[count * answer_size :]
            answered += count
            more = min(count, requests - sent)
            if more > 0:
                sock.sendall(frame * more)
                sent += more
        figures = _figures(meter, requests)
    check_answer(last_answer)
    return figures


def through_librdkafka(subject: Subject, topic: str, requests: int) -> dict[str, float]:
    """The same through librdkafka with linger 0 and batches of one record."""
    load = Load(RECORD_BYTES, RECORD_BYTES * requests)
    found = produce(subject, topic, load, UNBATCHED)
    cpu_us = found["cpu_s_per_gb"] * load.total_bytes / 1e9 / requests * 1e6
    return {"cpu_us_per_request": cpu_us, "requests_per_s": found["records_per_s"]}


VARIANTS = {"serial": serial, "pipelined": pipelined, "librdkafka": through_librdkafka}


def _frame_for(topic: str) -> bytes:
    return produce_frame(topic, one_record_batch(b"x" * RECORD_BYTES))


def _connect(subject: Subject) -> socket.socket:
    host, _, port = subject.bootstrap.rpartition(":")
    sock = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _first_answer(sock: socket.socket, frame: bytes) -> int:
    """Do one request outside the measurement and return the size of every answer to this frame."""
    sock.sendall(frame)
    prefix = sock.recv(4, socket.MSG_WAITALL)
    (size,) = struct.unpack(">i", prefix)
    check_answer(prefix + sock.recv(size, socket.MSG_WAITALL))
    return len(prefix) + int(size)


def check_answer(answer: bytes) -> None:
    """Refuse an answer that is an error; error answers would also differ in size from the first one."""
    _, response = decode_response(answer[4:], ProduceResponse)
    error = response.responses[0].partition_responses[0].error_code
    if error is not ErrorCode.none:
        raise BenchmarkFailed(f"the broker refused a record: {error.name}")


def _figures(meter: CpuMeter, requests: int) -> dict[str, float]:
    cpu, elapsed_s = meter.stop()
    return {"cpu_us_per_request": cpu.total_s / requests * 1e6, "requests_per_s": requests / elapsed_s}
