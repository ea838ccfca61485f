"""A front that wants TLS, a login, or both, before a broker that wants neither.

It ends TLS, answers SaslHandshake and SaslAuthenticate itself, adds both to what the broker says of its APIs, and
passes everything else on, one request at a time. Whoever has not logged in is cut off, as Kafka's brokers do, and so
is whoever has stayed longer than a session lasts (KIP-368). The broker has to advertise the front's port, so that
clients come back to it.
"""

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_core.wire.conversion import item_type, message_of
from ottla_core.wire.messages import MessageCodec, message_codec, read_request_header
from tests.support.free_ports import LOOPBACK
from tests.support.servers.certificates import Certificates

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = 4096


class SecuredFront:
    """Listens, and passes on to a port of this machine.

    Args:
        target_port: the broker's.
        certificates: for TLS; without them there is none.
        wants_client_certificate: whether clients have to show one of that authority.
        passwords: by user, and tokens for OAUTHBEARER; without any nobody needs to log in.
        session_s: how long a login lasts; 0 for ever.
        port: where to listen; 0 takes a free one.

    Attributes:
        port: where it listens.
        logins: mechanisms by which somebody was let in, in order.
        extensions: what those told besides who came by OAUTHBEARER.
    """

    def __init__(
        self,
        target_port: int,
        *,
        certificates: Certificates | None = None,
        wants_client_certificate: bool = False,
        passwords: dict[str, str] | None = None,
        session_s: float = 0.0,
        port: int = 0,
    ):
        self.logins: list[str] = []
        self.extensions: list[dict[str, str]] = []
        self.target_port = target_port
        self.passwords = passwords or {}
        self.session_s = session_s
        self._context: ssl.SSLContext | None = None
        if certificates is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
            if wants_client_certificate:
                self._context.load_verify_locations(certificates.path("ca.pem"))
                self._context.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server((LOOPBACK, port))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> "SecuredFront":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)  # TLS's own would unwrap it under its reader
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), contextlib.ExitStack() as sockets:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            self._open.add(sockets.enter_context(connection))
            if isinstance(connection, ssl.SSLSocket) and not is_agreed(connection):
                return
            broker = sockets.enter_context(socket.create_connection((LOOPBACK, self.target_port)))
            self._open.add(broker)
            Guest(self, connection, broker).serve()


class Guest:
    """One connection of a client."""

    def __init__(self, front: SecuredFront, client: socket.socket, broker: socket.socket):
        self._front = front
        self._client = client
        self._broker = broker
        self._is_in = not front.passwords
        self._until: float | None = None
        self._mechanism = ""
        self._scram: Iterator[bytes] | None = None
        self._heard = b""

    def serve(self) -> None:
        """Answers until the client goes, or is cut off."""
        while True:
            frame = receive_frame(self._client)
            api_key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
            if api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
                self._client.sendall(self._log_in(frame, message_codec(api_key, version)))
                continue
            is_late = self._until is not None and time.monotonic() > self._until
            if api_key != API_VERSIONS and (is_late or not self._is_in):
                return
            self._broker.sendall(frame)
            answer = receive_frame(self._broker)
            if api_key == API_VERSIONS and self._front.passwords:
                answer = with_sasl(answer, message_codec(api_key, version))
            self._client.sendall(answer)

    def _log_in(self, frame: bytes, codec: MessageCodec) -> bytes:
        request: Any = codec.read_request(memoryview(frame)[4:], read_request_header(memoryview(frame)[4:]))
        correlation_id = int.from_bytes(frame[8:12], "big")
        if request.__api_key__ == SASL_HANDSHAKE:
            self._mechanism, self._scram = request.mechanism, None
            is_known = self._mechanism in MECHANISMS
            code = ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism
            return codec.encode_response(
                correlation_id, message_of(codec.response_type, error_code=code, mechanisms=MECHANISMS)
            )
        answer = self._authenticate(request.auth_bytes)
        values: dict[str, Any] = {"error_code": ErrorCode.none, "auth_bytes": answer or b""}
        if answer is None:
            failed = ErrorCode.sasl_authentication_failed
            values |= {"error_code": failed, "error_message": "Authentication failed"}
        if self._is_in and self._front.session_s:
            self._until = time.monotonic() + self._front.session_s
            lifetime = type(message_of(codec.response_type).session_lifetime)  # type: ignore[attr-defined]
            values["session_lifetime"] = lifetime(seconds=self._front.session_s)
        return codec.encode_response(correlation_id, message_of(codec.response_type, **values))

    def _authenticate(self, message: bytes) -> bytes | None:
        """Returns the answer, or None for who may not come in."""
        if self._mechanism == "PLAIN":
            _, user, password = message.decode().split("\0")
            if self._front.passwords.get(user) != password:
                return None
            self._let_in()
            return b""
        if self._mechanism == "OAUTHBEARER":
            return self._authenticate_by_token(message)
        if self._scram is None:
            self._heard = message
            self._scram = self._scram_answers()
            return next(self._scram)
        self._heard = message
        answer = next(self._scram)
        return answer or None

    def _authenticate_by_token(self, message: bytes) -> bytes | None:
        """The server's side of RFC 7628: what is wrong is told first, and refused when the client has taken note."""
        if message == b"\x01":
            return None
        told = dict(part.split("=", 1) for part in message.decode().removeprefix("n,,\x01").split("\x01") if part)
        if told.pop("auth").removeprefix("Bearer ") not in self._front.passwords.values():
            return b'{"status":"invalid_token"}'
        self._front.extensions.append(told)
        self._let_in()
        return b""

    def _scram_answers(self) -> Iterator[bytes]:
        """The server's side of RFC 5802, without channel binding; an empty answer is a refusal."""
        hash_name, salt = HASHES[self._mechanism], secrets.token_bytes(16)
        first_bare = self._heard.decode().removeprefix("n,,")
        user, _, nonce = first_bare.removeprefix("n=").partition(",r=")
        password = self._front.passwords.get(user.replace("=2C", ",").replace("=3D", "="), secrets.token_hex())
        nonce += secrets.token_hex(8)
        challenge = f"r={nonce},s={base64.b64encode(salt).decode()},i={ITERATIONS}"
        yield challenge.encode()
        final, _, proof = self._heard.decode().rpartition(",p=")
        transcript = f"{first_bare},{challenge},{final}".encode()
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), transcript, hash_name)
        if bytes(a ^ b for a, b in zip(client_key, signature, strict=True)) != base64.b64decode(proof):
            yield b""
        self._let_in()
        server_signature = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), transcript, hash_name)
        yield b"v=" + base64.b64encode(server_signature)

    def _let_in(self) -> None:
        self._is_in = True
        self._front.logins.append(self._mechanism)


def is_agreed(connection: ssl.SSLSocket) -> bool:
    """Whether both sides agree on TLS; else the client has been told, and has gone."""
    try:
        connection.do_handshake()
    except ssl.SSLError:
        # What the client has sent has to be read: closing would have the system throw away what it was told.
        socket.socket.shutdown(connection, socket.SHUT_WR)
        while socket.socket.recv(connection, 4096):
            pass
        return False
    return True


def with_sasl(answer: bytes, codec: MessageCodec) -> bytes:
    """An answer to ApiVersions that has the requests for logging in as well."""
    response: Any = codec.read_response(answer)
    item: Any = item_type(codec.response_type, "api_keys")
    added = tuple(
        message_of(item, api_key=key, min_version=0, max_version=newest)
        for key, newest in ((SASL_HANDSHAKE, 1), (SASL_AUTHENTICATE, 2))
    )
    kept = tuple(each for each in response.api_keys if each.api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE))
    changed = dataclasses.replace(response, api_keys=(*kept, *added))
    return codec.encode_response(int.from_bytes(answer[4:8], "big"), changed)


def receive_frame(connection: socket.socket) -> bytes:
    """A whole frame, its length included."""
    length = receive_exactly(connection, 4)
    return length + receive_exactly(connection, int.from_bytes(length, "big"))


def receive_exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise EOFError
        received += piece
    return received
