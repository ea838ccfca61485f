"""Asks a process whether it is ready, and tells by the exit code: `python -m ottla_core.health_check ADDRESS`.

For containers and supervisors. HOST:PORT is asked by gRPC's health protocol, a URL by HTTP. The exit code 0 means
ready, 1 that it is not, or that nothing answers within `DEADLINE_S`, and why is printed.

It runs every few seconds in every container, so it imports neither gRPC nor an HTTP client, which takes ten times as
much CPU as all the rest: the one request that it makes is written by hand, in HTTP/2 (RFC 9113) with header fields
that are not compressed (RFC 7541, 6.2.2), and of the answer only the message is looked at.
"""

import argparse
import socket
import struct
import sys
import time
from collections.abc import Sequence
from typing import Final, Protocol

DEADLINE_S: Final = 5.0
HEALTH_METHOD: Final = "/grpc.health.v1.Health/Check"
STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
"""Of `grpc.health.v1.HealthCheckResponse`."""

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_ACK, _END_STREAM, _END_HEADERS = 0x1, 0x1, 0x4
_STREAM: Final = 1
_FRAME: Final = struct.Struct(">BHBBI")
_MESSAGE_PREFIX_BYTES: Final = 5
_FRAMES_MAX: Final = 32
_STATUS_LINE_BYTES_MAX: Final = 1024


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, fewer at the end."""


def problem_of(address: str) -> str | None:
    """Return None if the process at HOST:PORT or at a URL is ready, else what is wrong, in a few words."""
    deadline_s = time.monotonic() + DEADLINE_S
    try:
        problem = (_http_problem if "://" in address else _grpc_problem)(address, deadline_s)
    except (OSError, ValueError, EOFError) as error:
        problem = str(error) or type(error).__name__
    return None if problem is None else f"{address}: {problem}"


def _http_problem(url: str, deadline_s: float) -> str | None:
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    if scheme != "http":
        raise ValueError("write a URL that begins with http://")
    with _connected(authority, deadline_s, default_port=80) as connection, connection.makefile("rwb") as stream:
        request = f"GET /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nAccept: */*\r\n\r\n"
        stream.write(request.encode("ascii"))
        stream.flush()
        status_line = stream.readline(_STATUS_LINE_BYTES_MAX).decode("latin-1").strip()
    words = status_line.split(None, 2)
    return None if len(words) > 1 and words[1].startswith("2") else f"answered {status_line!r}"


def _grpc_problem(address: str, deadline_s: float) -> str | None:
    with _connected(address, deadline_s) as connection, connection.makefile("rwb") as stream:
        stream.write(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        stream.write(_frame(_HEADERS, _END_HEADERS, _STREAM, _request_fields(address)))
        stream.write(
            _frame(_DATA, _END_STREAM, _STREAM, bytes(_MESSAGE_PREFIX_BYTES))
        )  # no service is named: all of it
        stream.flush()
        message = b""
        for _ in range(_FRAMES_MAX):
            _within(connection, deadline_s)
            kind, flags, number, payload = _read_frame(stream)
            if kind == _SETTINGS and not flags & _ACK:
                stream.write(_frame(_SETTINGS, _ACK, 0, b""))
                stream.flush()
            elif number == _STREAM and kind == _DATA:
                message += payload
                if len(message) >= _MESSAGE_PREFIX_BYTES + int.from_bytes(message[1:_MESSAGE_PREFIX_BYTES]):
                    return _status_problem(message[_MESSAGE_PREFIX_BYTES:])
            elif number == _STREAM and flags & _END_STREAM:
                break
    return "answered without saying whether it is ready"


def _connected(address: str, deadline_s: float, default_port: int | None = None) -> socket.socket:
    """Return a connection to HOST:PORT.

    Raises:
        ValueError: the address has no port.
        OSError: nobody listens there.
    """
    host, _, port = address.rpartition(":")
    if not host and default_port is not None:
        host, port = address, str(default_port)
    if not host or not port.isdecimal():
        raise ValueError("write an address as HOST:PORT")
    connection = socket.create_connection((host.strip("[]"), int(port)), timeout=DEADLINE_S)
    _within(connection, deadline_s)
    return connection


def _within(connection: socket.socket, deadline_s: float) -> None:
    connection.settimeout(max(deadline_s - time.monotonic(), 0.001))


def _request_fields(authority: str) -> bytes:
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": HEALTH_METHOD,
        ":authority": authority,
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields.items())


def _text(value: str) -> bytes:
    content = value.encode("ascii")
    if len(content) > 126:  # a longer one has its length in several bytes
        raise ValueError("the address is too long")
    return bytes([len(content)]) + content


def _frame(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    return _FRAME.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, number) + payload


def _read_frame(stream: Readable) -> tuple[int, int, int, bytes]:
    """Return kind, flags, stream number and payload of the next frame.

    Raises:
        EOFError: the connection was closed.
    """
    high, low, kind, flags, number = _FRAME.unpack(_exactly(stream, _FRAME.size))
    return kind, flags, number & 0x7FFFFFFF, _exactly(stream, high << 16 | low)


def _exactly(stream: Readable, size_bytes: int) -> bytes:
    content = stream.read(size_bytes)
    if len(content) < size_bytes:
        raise EOFError("closed the connection")
    return content


def _status_problem(message: bytes) -> str | None:
    """Return what a HealthCheckResponse says: its only field, number 1, is the status; 0 is left out."""
    status = message[1] if len(message) == 2 and message[0] == 0x08 else 0
    name = STATUSES[status] if status < len(STATUSES) else STATUSES[0]
    return None if name == "SERVING" else name


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description="Ask a process whether it is ready.")
    parser.add_argument("address", help="HOST:PORT of its gRPC server, or the URL of its health page")
    problem = problem_of(parser.parse_args(arguments).address)
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
    return int(problem is not None)


if __name__ == "__main__":
    raise SystemExit(main())
