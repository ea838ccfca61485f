"""The layer that asks everybody who they are, before a request reaches its resource, and what they may do.

A user is known by a signed request of another worker, a certificate, a token, or a password, in this order. A failed
attempt is counted, and answered after `FAILURE_DELAY_S`, in the same words whatever was wrong; the log says why.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog
from cryptography import x509
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla_core.clock import SystemClock
from ottla_core.distinguished_names import distinguished_name
from ottla_core.principal_mapping import MappingRule, principal_name
from ottla_core.rest.access import OPEN_PATHS, Caller, basic_credentials, bearer_token, headers_of, may
from ottla_core.rest.access_settings import RestAccess
from ottla_core.rest.basic_users import BasicUsers, TooManyAttempts
from ottla_core.rest.client_certificates import certificate_of
from ottla_core.rest.error_answers import error_answer
from ottla_core.rest.errors import RequestError
from ottla_core.rest.worker_signatures import SIGNATURE_HEADER, RequestSigner, SignedRequest, signed_request

FAILURE_DELAY_S: Final = 1.0
DELAYED_MAX: Final = 200
"""So many failed attempts wait for their answers; further ones are refused before they are looked at."""
REALM: Final = "ottla"
INTERNAL_PREFIX: Final = "/internal/"

log = structlog.get_logger("rest")

IsSelfVerifying = Callable[[str, str], bool]
"""Whether a request, by method and path, bears a signature of its own that its resource verifies."""


@dataclass(slots=True)
class AccessCounts:
    """Counts since the start.

    Attributes:
        failed_authentications: attempts to be known that failed.
        denials: requests of users who are known and may not have them carried out.
    """

    failed_authentications: int = 0
    denials: int = 0


class BadSignature(RequestError):
    """The body of a request between workers is not the one that was signed."""

    status = 403


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why nobody is known; for the log."""

    reason: str


@dataclass(slots=True, kw_only=True)
class Access:
    """What decides about requests.

    Attributes:
        settings: who may do what.
        signer: knows what other workers have signed.
        counts: what failed.
        is_self_verifying: which requests are let through, as their resources verify them.
    """

    settings: RestAccess
    signer: RequestSigner
    counts: AccessCounts = field(default_factory=AccessCounts)
    is_self_verifying: IsSelfVerifying = lambda _method, _path: False


class Authentication:
    """Middleware.

    Args:
        app: what answers.
        access: what decides.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access
        self._counts = access.counts
        self._settings = access.settings
        self._users = None if self._settings.users is None else BasicUsers(self._settings.users)
        self._tokens = None
        if self._settings.tokens is not None:
            from ottla_core.tokens.key_source import BearerTokens  # noqa: PLC0415 - what it imports has its price

            self._tokens = BearerTokens(self._settings.tokens, SystemClock())
        self._delayed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        method = scope["method"]
        path = scope["raw_path"].decode("ascii", errors="replace")
        path = path.removesuffix("/") or "/"
        if path in OPEN_PATHS or self._access.is_self_verifying(method, path):
            return await self._app(scope, receive, send)
        headers = headers_of(scope["headers"])
        signed = self._signed(scope, headers)
        if signed is not None:
            scope.setdefault("state", {})["caller"] = signed.caller
            return await self._app(scope, _Checked(receive, signed.body_digest), send)
        if path.startswith(INTERNAL_PREFIX):
            return await error_answer(403, "Internal request without a valid signature")(scope, receive, send)
        caller = await self._caller(scope, headers)
        if isinstance(caller, _Failure):
            return await self._refuse(caller, scope, receive, send)
        if not may(caller, method, self._settings.administrators):
            self._counts.denials += 1
            log.warning("a request is denied", user=caller.name, method=method, path=path, client=scope["client"])
            message = f"User:{caller.name} may only read; rest.administrators names those who may do everything"
            return await error_answer(403, message)(scope, receive, send)
        scope.setdefault("state", {})["caller"] = caller.name
        return await self._app(scope, receive, send)

    def _signed(self, scope: Scope, headers: Mapping[str, str]) -> SignedRequest | None:
        if SIGNATURE_HEADER not in headers:
            return None
        target = scope["raw_path"] + b"?" + scope["query_string"]
        return signed_request(
            self._access.signer, headers, method=scope["method"], target=target, now_ms=int(time.time() * 1000)
        )

    async def _caller(self, scope: Scope, headers: Mapping[str, str]) -> Caller | _Failure:
        """Return who asks, by a certificate or what the header ``Authorization`` has."""
        shown = headers.get("authorization", "")
        if shown:
            if self._delayed >= DELAYED_MAX:
                return _Failure("too many attempts have failed just now")
            return await self._by_header(shown)
        if self._settings.certificate_rules is not None:
            certificate = certificate_of(scope)
            if certificate is not None:
                return _by_certificate(certificate, self._settings.certificate_rules)
        return _Failure("")

    async def _by_header(self, shown: str) -> Caller | _Failure:
        credentials, token = basic_credentials(shown), bearer_token(shown)
        if credentials is not None and self._users is not None:
            user, password = credentials
            try:
                is_right = await self._users.check(user, password)
            except TooManyAttempts:
                return _Failure("too many passwords are being checked")
            return Caller(user) if is_right else _Failure("no such user, or not the user's password")
        if token is not None and self._tokens is not None:
            judgement = await self._tokens.judge(token)
            return Caller(judgement.subject) if judgement.subject is not None else _Failure(judgement.reason)
        return _Failure("the header Authorization has nothing of what is accepted here")

    async def _refuse(self, failure: _Failure, scope: Scope, receive: Receive, send: Send) -> None:
        if failure.reason:  # a request without credentials asks only what is accepted
            self._counts.failed_authentications += 1
            log.warning("an authentication failed", reason=failure.reason, client=scope["client"])
            if self._delayed < DELAYED_MAX:
                self._delayed += 1
                try:
                    await asyncio.sleep(FAILURE_DELAY_S)
                finally:
                    self._delayed -= 1
        answer = error_answer(401, "Authentication is required")
        for challenge in self._settings.challenges(REALM):
            answer.headers.append("WWW-Authenticate", challenge)
        await answer(scope, receive, send)


class _Checked:
    """Receives a body, and refuses its end if it is not the one that was signed."""

    def __init__(self, receive: Receive, digest: str) -> None:
        self._receive = receive
        self._digest = digest
        self._seen = hashlib.sha256()
        self._is_over = False

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and not self._is_over:
            self._seen.update(message.get("body", b""))
            self._is_over = not message.get("more_body", False)
            if self._is_over and self._seen.hexdigest() != self._digest:
                raise BadSignature("Internal request contained invalid signature.")
        return message


def _by_certificate(certificate: bytes, rules: tuple[MappingRule, ...]) -> Caller | _Failure:
    try:
        full_name = distinguished_name(x509.load_der_x509_certificate(certificate).subject)
    except ValueError:
        return _Failure("the certificate has no name that can be read")
    name = principal_name(rules, full_name)
    if not name:
        return _Failure(f"no rule of listeners.https.ssl.principal.mapping.rules names {full_name}")
    return Caller(name)
