"""The layer that asks everybody who they are, before a request reaches its resource, and what they may do.

A request that another worker has signed names its user; any other one is known by the header ``Authorization``, a
password or a token, or without that header by the connection's certificate. A failed attempt is counted, and answered
after `FAILURE_DELAY_S`, in the same words whatever was wrong; the log says why.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from cryptography import x509
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla_core.clock import SystemClock
from ottla_core.distinguished_names import distinguished_name
from ottla_core.failure_log import FailureLog
from ottla_core.principal_mapping import MappingRule, principal_name
from ottla_core.rest.access import (
    OPEN_PATHS,
    Caller,
    basic_credentials,
    bearer_token,
    headers_of,
    is_of_another_site,
    may,
)
from ottla_core.rest.access_settings import RestAccess
from ottla_core.rest.basic_users import BasicUsers, TooManyAttempts
from ottla_core.rest.client_certificates import certificate_of
from ottla_core.rest.error_answers import error_answer
from ottla_core.rest.errors import RequestError
from ottla_core.rest.forwarding import is_forwarded
from ottla_core.rest.worker_signatures import (
    OWN_ACCOUNT,
    SIGNATURE_HEADER,
    RequestSigner,
    SeenNonces,
    SignedRequest,
    signed_request,
)

FAILURE_DELAY_S: Final = 1.0
DELAYED_MAX: Final = 200
"""So many failed attempts wait for their answers; further ones are answered at once."""
RETRY_AFTER_S: Final = 2
REALM: Final = "ottla"
UNKNOWN, DENIED, BUSY = 401, 403, 503
STRANGER: Final = "is_stranger"

log = structlog.get_logger("rest")

IsInternal = Callable[[str, str], bool]
"""Whether only other workers may make a request, by method and path as they are sent."""


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

    status = DENIED


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why nobody is known; for the log. Empty: nothing was shown."""

    reason: str


class Access:
    """What decides about requests.

    Args:
        settings: who may do what.
        signer: knows what other workers have signed.
        own_url: by which other workers know this one.
        is_internal: which requests only other workers may make.
        counts: what failed.

    Raises:
        ConfigurationError: the users' file, or the authorities of the keys of tokens, cannot be read.
    """

    def __init__(
        self,
        settings: RestAccess,
        signer: RequestSigner,
        *,
        own_url: str,
        is_internal: IsInternal = lambda _method, _path: False,
        counts: AccessCounts | None = None,
    ) -> None:
        self.settings = settings
        self.signer = signer
        self.own_url = own_url
        self.is_internal = is_internal
        self.counts = counts or AccessCounts()
        self.seen = SeenNonces(since_ms=int(time.time() * 1000))
        self.users = None if settings.users is None else BasicUsers(settings.users)
        self.tokens = None
        if settings.tokens is not None:
            from ottla_core.tokens.key_source import BearerTokens  # noqa: PLC0415 - what it imports has its price

            self.tokens = BearerTokens(settings.tokens, SystemClock())


class Authentication:
    """Middleware.

    Args:
        app: what answers.
        access: what decides.
        allowed_origins: sites whose pages may make changes for users whom the browser makes known, or ``*``.
    """

    def __init__(self, app: ASGIApp, access: Access, allowed_origins: Sequence[str] = ()) -> None:
        self._app = app
        self._access = access
        self._allowed_origins = frozenset(allowed_origins)
        self._failures = FailureLog()
        self._delayed = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        method = scope["method"]
        path = scope["raw_path"].decode("ascii", errors="replace")
        path = path.removesuffix("/") or "/"
        if path in OPEN_PATHS:
            scope.setdefault("state", {})[STRANGER] = True
            return await self._app(scope, receive, send)
        headers = headers_of(scope["headers"])
        is_internal = self._access.is_internal(method, path)
        signed = self._signed(scope, headers)
        if signed is not None and (signed.caller == OWN_ACCOUNT or not is_internal):
            scope.setdefault("state", {})["caller"] = signed.caller
            return await self._app(scope, _Checked(receive, signed.body_digest), send)
        if is_internal:
            answer = error_answer(DENIED, "Internal request without a valid signature of a worker")
            return await answer(scope, receive, send)
        try:
            caller = await self._caller(scope, headers)
        except TooManyAttempts:
            answer = error_answer(BUSY, "Too many passwords are being checked; try again shortly")
            answer.headers["Retry-After"] = str(RETRY_AFTER_S)
            return await answer(scope, receive, send)
        if isinstance(caller, _Failure):
            return await self._refuse(caller, scope, receive, send)
        denial = self._denial(caller, method, headers)
        if denial is not None:
            self._access.counts.denials += 1
            log.warning("a request is denied", user=caller.name, method=method, path=path, client=scope["client"])
            return await error_answer(DENIED, denial)(scope, receive, send)
        scope.setdefault("state", {})["caller"] = caller.name
        return await self._app(scope, receive, send)

    def _signed(self, scope: Scope, headers: Mapping[str, str]) -> SignedRequest | None:
        if SIGNATURE_HEADER not in headers:
            return None
        return signed_request(
            self._access.signer,
            self._access.seen,
            headers,
            audience=self._access.own_url,
            method=scope["method"],
            target=scope["raw_path"] + b"?" + scope["query_string"],
            now_ms=int(time.time() * 1000),
        )

    async def _caller(self, scope: Scope, headers: Mapping[str, str]) -> Caller | _Failure:
        """Return who asks, by what the header ``Authorization`` has or by a certificate.

        Raises:
            TooManyAttempts: a password is not looked at, since so many are.
        """
        shown = headers.get("authorization", "")
        if shown:
            return await self._by_header(shown)
        if SIGNATURE_HEADER in headers or is_forwarded(scope):
            # The certificate is the other worker's, which may not ask its users who they are.
            return _Failure("no worker that is known has signed the request, or it came before")
        rules = self._access.settings.certificate_rules
        certificate = certificate_of(scope)
        if rules is not None and certificate is not None:
            return _by_certificate(certificate, rules)
        return _Failure("")

    async def _by_header(self, shown: str) -> Caller | _Failure:
        credentials, token = basic_credentials(shown), bearer_token(shown)
        if credentials is not None and self._access.users is not None:
            user, password = credentials
            is_right = await self._access.users.check(user, password)
            return Caller(user) if is_right else _Failure("no such user, or not the user's password")
        if token is not None and self._access.tokens is not None:
            judgement = await self._access.tokens.judge(token)
            return _named(judgement.subject, judgement.reason or "the token names nobody whose name can be printed")
        return _Failure("the header Authorization has nothing of what is accepted here")

    def _denial(self, caller: Caller, method: str, headers: Mapping[str, str]) -> str | None:
        """Return why a user who is known may not have a request carried out; None if the user may."""
        if not may(caller, method, self._access.settings.administrators):
            return f"User:{caller.name} may only read; rest.administrators names those who may do everything"
        if is_of_another_site(method, headers, self._allowed_origins):
            return "A page of another site asks for a change; access.control.allow.origin names those that may"
        return None

    async def _refuse(self, failure: _Failure, scope: Scope, receive: Receive, send: Send) -> None:
        if failure.reason:  # a request without credentials asks only what is accepted
            self._access.counts.failed_authentications += 1
            left_out = self._failures.note(time.monotonic())
            if left_out is not None:
                log.warning(
                    "an authentication failed", reason=failure.reason, client=scope["client"], left_out=left_out
                )
            await self._delay()
        answer = error_answer(UNKNOWN, "Authentication is required")
        for challenge in self._access.settings.challenges(REALM):
            answer.headers.append("WWW-Authenticate", challenge)
        await answer(scope, receive, send)

    async def _delay(self) -> None:
        if self._delayed >= DELAYED_MAX:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(FAILURE_DELAY_S)
        finally:
            self._delayed -= 1


def is_stranger(request: Request) -> bool:
    """Return whether a request is answered without asking who it is from, where others are asked: no details then."""
    return bool(getattr(request.state, STRANGER, False))


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
    reason = f"no rule of listeners.https.ssl.principal.mapping.rules makes a name of {full_name!r}"
    return _named(principal_name(rules, full_name), reason)


def _named(name: str | None, reason: str) -> Caller | _Failure:
    """Return who asks, if the name is one that may stand in a line of the log."""
    return Caller(name) if name and name.isprintable() else _Failure(reason)
