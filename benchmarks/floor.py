"""The floor: the least that a broker in this language must do with records, as a server for the same clients.

In: `recv_into` one reused buffer, CRC-32C over the record batch, one `writev` of a new 16-byte prefix and the
untouched rest. Out: one small header and `sendfile`. One thread, one selector, no asyncio, no checks, no state on
disk but the records; see `floor_wire.py` for the protocol. A broker's CPU time divided by this program's, for the
same bytes, is what its promises cost.
"""

import bisect
import contextlib
import errno
import os
import selectors
import signal
import socket
import struct
import time
from collections import deque
from pathlib import Path

import crc32c

from benchmarks import floor_wire as wire

FRAME_BYTES_MAX = 4 * 1024 * 1024
SHORT_READ_BYTES = 64 * 1024
"""How much is read while no frame's length is known; the rest of a longer frame is then read to its exact end, so
that only the beginnings of short frames ever have to be moved."""
BATCH_PREFIX = struct.Struct(">qii")
"""Base offset, length and leader epoch: what appending replaces."""
CRC_OFFSET, CRC_COVERS_FROM, LAST_OFFSET_DELTA_OFFSET = 17, 21, 23


class FloorLog:
    """One partition: a file of batches, and where each one begins."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        self.end_offset = 0
        self.base_offsets: list[int] = []
        self.positions = [0]

    def append(self, batch: memoryview) -> int:
        """Check and write one batch; return its base offset."""
        (crc,) = struct.unpack_from(">I", batch, CRC_OFFSET)
        assert crc == crc32c.crc32c(batch[CRC_COVERS_FROM:]), "the batch is damaged"
        base_offset = self.end_offset
        prefix = BATCH_PREFIX.pack(base_offset, len(batch) - 12, 0)
        written = os.writev(self.fd, (prefix, batch[BATCH_PREFIX.size :]))
        assert written == len(batch), "the disk is full"
        self.base_offsets.append(base_offset)
        self.positions.append(self.positions[-1] + written)
        self.end_offset += struct.unpack_from(">i", batch, LAST_OFFSET_DELTA_OFFSET)[0] + 1
        return base_offset

    def locate(self, offset: int, bytes_max: int) -> tuple[int, int]:
        """Return position and size of the whole batches from `offset` on that fit, and at least of one."""
        if offset >= self.end_offset:
            return 0, 0
        first = bisect.bisect_right(self.base_offsets, offset) - 1
        start = self.positions[first]
        last = max(first + 1, bisect.bisect_right(self.positions, start + bytes_max) - 1)
        return start, self.positions[last] - start


class FloorConnection:
    """A client's socket, its receive buffer, and what could not be sent at once."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.view = memoryview(bytearray(FRAME_BYTES_MAX))
        self.filled = 0
        self.consumed = 0
        self.outgoing: deque[bytes | tuple[int, int, int]] = deque()

    def receive(self) -> list[memoryview] | None:
        """Read once; return the complete frames, valid until `keep_rest`, or None at the end."""
        wanted = SHORT_READ_BYTES if self.filled < 4 else 4 + wire.LENGTH.unpack_from(self.view)[0]
        assert wanted <= FRAME_BYTES_MAX, "the floor takes frames of at most 4 MiB"
        try:
            count = self.socket.recv_into(self.view[self.filled : wanted])
        except BlockingIOError:
            return []
        except ConnectionResetError:
            return None
        if not count:
            return None
        self.filled += count
        frames, start = [], 0
        while self.filled - start >= 4:
            end = start + 4 + wire.LENGTH.unpack_from(self.view, start)[0]
            if end > self.filled:
                break
            frames.append(self.view[start + 4 : end])
            start = end
        self.consumed = start
        return frames

    def keep_rest(self) -> None:
        """Move an incomplete frame to the buffer's beginning."""
        if self.consumed:
            rest = self.filled - self.consumed
            self.view[:rest] = bytes(self.view[self.consumed : self.filled])
            self.filled, self.consumed = rest, 0

    def flush(self) -> bool:
        """Send what waits; return whether everything has left."""
        try:
            while self.outgoing:
                part = self.outgoing[0]
                if isinstance(part, bytes):
                    is_followed_by_file = len(self.outgoing) > 1
                    sent = self.socket.send(part, socket.MSG_MORE if is_followed_by_file else 0)
                    rest: bytes | tuple[int, int, int] | None = part[sent:] or None
                else:
                    fd, position, size = part
                    sent = os.sendfile(self.socket.fileno(), fd, position, size)
                    rest = (fd, position + sent, size - sent) if sent < size else None
                if rest is None:
                    self.outgoing.popleft()
                else:
                    self.outgoing[0] = rest
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in {errno.EPIPE, errno.ECONNRESET}:
                raise
            self.outgoing.clear()
        return True


class Floor:
    """The server."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.logs: dict[bytes, FloorLog] = {}
        self.listening = socket.create_server(("127.0.0.1", port))
        self.listening.setblocking(False)
        self.port: int = self.listening.getsockname()[1]
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listening, selectors.EVENT_READ, None)
        self.parked: list[tuple[float, FloorConnection, int, wire.FetchRequest]] = []
        self.next_producer_id = 1

    def run(self) -> None:
        """Serve until interrupted."""
        while True:
            wait_s = max(0.0, min(parked[0] for parked in self.parked) - time.monotonic()) if self.parked else None
            for key, events in self.selector.select(wait_s):
                connection: FloorConnection | None = key.data
                if connection is None:
                    self._accept()
                elif events & selectors.EVENT_WRITE:
                    self._flush(connection)
                else:
                    self._read(connection)
            if self.parked:
                self._answer_parked()

    def _accept(self) -> None:
        sock, _ = self.listening.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(sock, selectors.EVENT_READ, FloorConnection(sock))

    def _read(self, connection: FloorConnection) -> None:
        frames = connection.receive()
        if frames is None:
            self.selector.unregister(connection.socket)
            connection.socket.close()
            self.parked = [parked for parked in self.parked if parked[1] is not connection]
            return
        if frames:
            for frame in frames:
                self._handle(connection, frame)
            connection.keep_rest()
            self._flush(connection)

    def _flush(self, connection: FloorConnection) -> None:
        """Send; a client that does not read is not read from either."""
        wanted = selectors.EVENT_READ if connection.flush() else selectors.EVENT_WRITE
        if self.selector.get_key(connection.socket).events != wanted:
            self.selector.modify(connection.socket, wanted, connection)

    def _handle(self, connection: FloorConnection, frame: memoryview) -> None:
        key, version, correlation_id = wire.HEADER.unpack_from(frame)
        if key == wire.PRODUCE:
            request = wire.read_produce(frame)
            base_offset = self.logs[request.topic].append(request.batch)
            if request.acks:
                body = wire.write_produced(request.topic, base_offset)
                connection.outgoing.append(wire.write_response(correlation_id, body, flexible=True))
        elif key == wire.FETCH:
            self._fetch(connection, correlation_id, wire.read_fetch(frame))
        else:
            connection.outgoing.append(wire.write_response(correlation_id, self._answer(key, version, frame)))

    def _fetch(self, connection: FloorConnection, correlation_id: int, request: wire.FetchRequest | None) -> None:
        if request is None:
            response = wire.write_response(correlation_id, wire.NOTHING_FETCHED, flexible=True)
            connection.outgoing.append(response)
        elif not self._send_records(connection, correlation_id, request, or_nothing=False):
            deadline_s = time.monotonic() + request.wait_ms_max / 1000
            self.parked.append((deadline_s, connection, correlation_id, request))

    def _send_records(
        self, connection: FloorConnection, correlation_id: int, request: wire.FetchRequest, *, or_nothing: bool
    ) -> bool:
        log = self.logs[request.topic]
        position, size = log.locate(request.offset, request.partition_bytes_max)
        if not size and not or_nothing:
            return False
        head = wire.write_fetched_head(request.topic, log.end_offset, size)
        more_bytes = size + len(wire.FETCHED_TAIL)
        response = wire.write_response(correlation_id, head, flexible=True, more_bytes=more_bytes)
        connection.outgoing.append(response)
        if size:
            connection.outgoing.append((log.fd, position, size))
        connection.outgoing.append(wire.FETCHED_TAIL)
        return True

    def _answer_parked(self) -> None:
        """Answer the long polls that have records now or whose time is up."""
        now_s = time.monotonic()
        parked, self.parked = self.parked, []
        for waiting in parked:
            deadline_s, connection, correlation_id, request = waiting
            if self._send_records(connection, correlation_id, request, or_nothing=now_s >= deadline_s):
                self._flush(connection)
            else:
                self.parked.append(waiting)

    def _answer(self, key: int, version: int, frame: memoryview) -> bytes:
        """Return the response's body to one of the requests that move no records."""
        if key == wire.API_VERSIONS:
            return wire.write_api_versions(wire.UNSUPPORTED_VERSION if version else 0)
        if key == wire.METADATA:
            asked = [topic for topic in wire.read_topic_names(frame) if topic in self.logs]
            return wire.write_metadata(b"127.0.0.1", self.port, asked or list(self.logs))
        if key == wire.LIST_OFFSETS:
            topic, timestamp = wire.read_list_offsets(frame)
            is_earliest = timestamp == wire.EARLIEST_TIMESTAMP
            return wire.write_listed_offset(topic, 0 if is_earliest else self.logs[topic].end_offset)
        if key == wire.INIT_PRODUCER_ID:
            self.next_producer_id += 1
            return wire.write_producer_id(self.next_producer_id)
        topics = wire.read_topic_names(frame)
        if key == wire.CREATE_TOPICS:
            for topic in topics:
                self.logs[topic] = FloorLog(self.directory / topic.decode())
            return wire.write_created_topics(topics)
        assert key == wire.DELETE_TOPICS, f"the floor does not know API {key}"
        for topic in topics:
            os.close(self.logs.pop(topic).fd)
            (self.directory / topic.decode()).unlink()
        return wire.write_deleted_topics(topics)


def serve(directory: Path, port: int) -> None:
    """Run the floor until SIGTERM; its first line of output is its address."""
    floor = Floor(directory, port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"127.0.0.1:{floor.port}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        floor.run()
