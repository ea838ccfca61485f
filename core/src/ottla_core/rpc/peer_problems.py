"""Why another process cannot be called, told in the log, where TLS or the other side's rules are the reason.

gRPC says of a failed handshake hardly more than that the connection is closed, so a handshake of Python's own tells
what the other side shows, or refuses. It is made only after a failure, and no more often than every `PAUSE_S` for an
address.
"""

import asyncio
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final, NamedTuple

import grpc
import structlog
from grpc import aio

from ottla_core.background import start_detached
from ottla_core.openssl_errors import openssl_reason
from ottla_core.rpc.refusals import PEER_NOT_TRUSTED, REFUSED_BY_PEER, rpc_security
from ottla_core.rpc_identity import RpcIdentity

if TYPE_CHECKING:
    from ottla_core.rpc.tls import RpcTls

PAUSE_S: Final = 10.0
HANDSHAKE_TIMEOUT_S: Final = 2.0
ADDRESSES_MAX: Final = 256
HTTP2: Final = "h2"

log = structlog.get_logger("rpc")


class PeerProblem(NamedTuple):
    """What is wrong: a word for metrics, and a sentence for people."""

    reason: str
    message: str


class PeerProblems:
    """What has been told of which address, and when."""

    def __init__(self, tls: "RpcTls | None") -> None:
        self._tls = tls
        self._looked_s: dict[str, float] = {}

    def note_failure(self, address: str, peer: RpcIdentity, error: aio.AioRpcError) -> None:
        """Log why a call has failed, soon, if that is for certificates or rules."""
        if self._tls is None or not self._is_due(address):
            return
        if error.code() is grpc.StatusCode.PERMISSION_DENIED:
            _tell(address, peer, PeerProblem(REFUSED_BY_PEER, error.details() or "no reason is given"))
        elif error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            start_detached("check of another process", _look(address, peer, self._tls))

    def _is_due(self, address: str) -> bool:
        now_s = time.monotonic()
        if now_s - self._looked_s.get(address, now_s - PAUSE_S) < PAUSE_S:
            return False
        if len(self._looked_s) >= ADDRESSES_MAX:
            self._looked_s.clear()
        self._looked_s[address] = now_s
        return True


async def _look(address: str, peer: RpcIdentity, tls: "RpcTls") -> None:
    problem = await asyncio.to_thread(handshake_problem, address, peer, tls)
    if problem is not None:
        _tell(address, peer, problem)


def _tell(address: str, peer: RpcIdentity, problem: PeerProblem) -> None:
    rpc_security.refusals[problem.reason] += 1
    log.error("another process is not to be called", wanted=str(peer), address=address, problem=problem.message)


def handshake_problem(address: str, peer: RpcIdentity, tls: "RpcTls") -> PeerProblem | None:
    """Return what keeps two processes from trusting each other; None where nothing does, or nobody listens."""
    from cryptography import x509  # noqa: PLC0415 - imported with TLS only

    from ottla_core.rpc.tls import dns_names_of  # noqa: PLC0415

    host, _, port = address.rpartition(":")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the names are compared below, to say whose they are
        context.load_verify_locations(tls.files.authorities)
        context.load_cert_chain(tls.files.certificate, tls.files.key, password="")
        context.set_alpn_protocols([HTTP2])
        plain = socket.create_connection((host.strip("[]"), int(port)), HANDSHAKE_TIMEOUT_S)
    except (OSError, ValueError):
        return None
    with plain:
        try:
            encrypted = context.wrap_socket(plain, server_hostname=tls.names.name_of(peer))
        except ssl.SSLCertVerificationError as error:
            return PeerProblem(PEER_NOT_TRUSTED, f"its certificate is not accepted: {error.verify_message}")
        except OSError as error:
            return _problem_of_ending(error)
        with encrypted:
            shown = dns_names_of(x509.load_der_x509_certificate(encrypted.getpeercert(binary_form=True) or b""))
            identities = tls.names.identities(shown)
            if peer not in identities:
                whose = ", ".join(map(str, identities)) or f"no process of this cluster ({', '.join(shown)})"
                return PeerProblem(PEER_NOT_TRUSTED, f"it shows a certificate of {whose} where {peer} was wanted")
            try:
                # The server speaks first, but only to whom it accepts.
                if encrypted.recv(1):
                    return None
            except OSError as error:
                return _problem_of_ending(error)
    return PeerProblem(REFUSED_BY_PEER, "it closes the connection when it has seen this process's certificate")


def _problem_of_ending(error: OSError) -> PeerProblem | None:
    if isinstance(error, TimeoutError):
        return None
    if isinstance(error, ssl.SSLError):
        reason = openssl_reason(error)
        if "alert" in reason:
            return PeerProblem(REFUSED_BY_PEER, f"it does not accept this process's certificate ({reason})")
        return PeerProblem(PEER_NOT_TRUSTED, f"the handshake failed ({reason}); does it listen without TLS?")
    return PeerProblem(REFUSED_BY_PEER, "it closes the connection during the handshake")
