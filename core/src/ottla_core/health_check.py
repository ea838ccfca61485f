"""Asks a process whether it is ready, and tells by the exit code: `python -m ottla_core.health_check ADDRESS`.

For containers and supervisors. HOST:PORT is asked by gRPC's health protocol, a URL by HTTP. The exit code 0 means
ready, 1 that it is not, or that nothing answers within `DEADLINE_S`, and why is printed.

It runs every few seconds in every container, so it does not import gRPC, which takes more CPU than all the rest: the
one call that it makes is a request of HTTP/2, and of the answer only the message is looked at.

With TLS it shows the certificate of the process that it asks for, whose settings are in the container's environment
(`OTTLA_RPC_TLS_CA`, `OTTLA_RPC_TLS_CERTIFICATE`, `OTTLA_RPC_TLS_KEY`) or are options here. The certificate that
answers must be of the same authority, whosever it is: what is asked runs beside, at an address of this machine.
"""

import argparse
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

DEADLINE_S: Final = 5.0
HEALTH_METHOD: Final = "/grpc.health.v1.Health/Check"
STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
"""Of `grpc.health.v1.HealthCheckResponse`."""

_MESSAGE_PREFIX_BYTES: Final = 5
"""Before a message of gRPC stand a flag and its length."""
_WHOLE_SERVER: Final = bytes(_MESSAGE_PREFIX_BYTES)
"""A HealthCheckRequest that names no service has no bytes."""
_RECEIVED_AT_ONCE_BYTES: Final = 16 * 1024
_READS_MAX: Final = 32


class TlsFiles(NamedTuple):
    """Paths of PEM files: whom to trust, and what to show."""

    ca: str
    certificate: str
    key: str


def problem_of(address: str, tls: TlsFiles | None = None) -> str | None:
    """Return None if the process at HOST:PORT or at a URL is ready, else what is wrong, in a few words."""
    try:
        problem = _http_problem(address) if "://" in address else _grpc_problem(address, tls)
    except (OSError, ValueError) as error:
        problem = str(error) or type(error).__name__
    return None if problem is None else f"{address}: {problem}"


def _http_problem(url: str) -> str | None:
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 - not needed for gRPC

    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    if scheme != "http":
        raise ValueError("write a URL that begins with http://")
    connection = HTTPConnection(authority, timeout=DEADLINE_S)
    try:
        connection.request("GET", f"/{path}")
        status = connection.getresponse().status
    except HTTPException as error:
        return f"no answer of HTTP ({error!r})"
    finally:
        connection.close()
    return None if 200 <= status < 300 else f"answered with status {status}"


def _grpc_problem(address: str, tls: TlsFiles | None) -> str | None:
    """Ask once, over a connection of its own.

    Raises:
        ValueError: the address has no port.
        OSError: nobody listens there, or nothing came in time.
    """
    from h2.connection import H2Connection  # noqa: PLC0415 - not needed for HTTP
    from h2.events import DataReceived, StreamEnded, StreamReset  # noqa: PLC0415
    from h2.exceptions import ProtocolError  # noqa: PLC0415

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("write an address as HOST:PORT")
    deadline_s = time.monotonic() + DEADLINE_S
    plain = socket.create_connection((host.strip("[]"), int(port)), timeout=DEADLINE_S)
    with plain, _encrypted(plain, tls) as sock:
        http2 = H2Connection()
        http2.initiate_connection()
        stream = http2.get_next_available_stream_id()
        http2.send_headers(stream, _request_fields(address, "http" if tls is None else "https"))
        http2.send_data(stream, _WHOLE_SERVER, end_stream=True)
        message = b""
        for _ in range(_READS_MAX):
            sock.sendall(http2.data_to_send())
            sock.settimeout(max(deadline_s - time.monotonic(), 0.001))
            received = sock.recv(_RECEIVED_AT_ONCE_BYTES)
            if not received:
                return "closed the connection"
            try:
                events = http2.receive_data(received)
            except ProtocolError as error:
                return f"does not answer in gRPC ({error})"
            message += b"".join(event.data or b"" for event in events if isinstance(event, DataReceived))
            if len(message) >= _MESSAGE_PREFIX_BYTES + int.from_bytes(message[1:_MESSAGE_PREFIX_BYTES]):
                return _status_problem(message[_MESSAGE_PREFIX_BYTES:])
            if any(isinstance(event, StreamEnded | StreamReset) for event in events):
                break
    return "answered without saying whether it is ready"


def _encrypted(plain: socket.socket, tls: TlsFiles | None) -> socket.socket:
    if tls is None:
        return plain
    import ssl  # noqa: PLC0415 - not needed without TLS

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(tls.ca)
    context.load_cert_chain(tls.certificate, tls.key, password="")
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain)


def _request_fields(authority: str, scheme: str) -> list[tuple[str, str]]:
    return [
        (":method", "POST"),
        (":scheme", scheme),
        (":path", HEALTH_METHOD),
        (":authority", authority),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]


def _status_problem(message: bytes) -> str | None:
    """Return what a HealthCheckResponse says: its only field, number 1, is the status; 0 is left out."""
    status = message[1] if len(message) == 2 and message[0] == 0x08 else 0
    name = STATUSES[status] if status < len(STATUSES) else STATUSES[0]
    return None if name == "SERVING" else name


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask, print what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description="Ask a process whether it is ready.")
    parser.add_argument("address", help="HOST:PORT of its gRPC server, or the URL of its health page")
    for name in TlsFiles._fields:
        parser.add_argument(
            f"--tls-{name}",
            default=os.environ.get(f"OTTLA_RPC_TLS_{name.upper()}", ""),
            metavar="FILE",
            help=f"PEM file, by default the one that OTTLA_RPC_TLS_{name.upper()} names",
        )
    options = parser.parse_args(arguments)
    files = TlsFiles(options.tls_ca, options.tls_certificate, options.tls_key)
    problem = problem_of(options.address, files if all(files) else None)
    if problem is not None:
        sys.stderr.write(f"{problem}\n")
    return int(problem is not None)


if __name__ == "__main__":
    raise SystemExit(main())
