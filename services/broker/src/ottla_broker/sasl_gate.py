"""What stands before the requests of a connection on a listener with SASL: nobody passes who has not logged in.

A connection with a gate gives it every frame. Until the client has logged in, the gate takes what a login needs
(`sasl/sessions.py`), one frame at a time, and ends the connection for anything else. Afterwards the gate goes, unless
the login holds for a limited time: then it ends the connection at the first request after that time, and lets the
client renew its login before (KIP-368). Requests that were under way are answered as usual.

A client that is not believed is told so after a delay, and the same for every reason, and then the connection ends.
"""

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.static.primitive import i64Timedelta
from kio.static.protocol import Entity

from ottla_broker.client_plugins.principals import UnknownClient
from ottla_broker.connection import Connection
from ottla_broker.outcome import Outcome, Parts
from ottla_broker.quotas.charge import NoCharge
from ottla_broker.sasl.exchange import Accepted, Challenge, Exchange, Refused
from ottla_broker.sasl.listener_sasl import ListenerSasl
from ottla_broker.sasl.sessions import (
    SASL_AUTHENTICATE_KEY,
    SASL_HANDSHAKE_KEY,
    Authentication,
    Login,
    Phase,
    session_lifetime_ms,
)
from ottla_core.clock import Clock
from ottla_core.errors import InvalidRequest
from ottla_core.observe.request_errors import count_error
from ottla_core.principal import Principal
from ottla_core.slices import started
from ottla_core.wire.messages import (
    API_VERSIONS_KEY,
    MessageCodec,
    RequestHeader,
    api_name,
    message_codec,
    newest_version,
    read_request_header,
)

AUTHENTICATION_SECONDS_MAX: Final = 30.0
"""How long a client may take to log in; slow ones would hold a place among the connections."""
RENEWAL_SECONDS_MIN: Final = 1.0
"""How much time has to be between two renewals of a login; Kafka's limit."""
CLOSING_SECONDS_MAX: Final = 5.0
"""How long a client that is not believed may take to read that."""
LINGER_SECONDS: Final = 0.25
"""How long the connection of such a client is left to it after that, to be closed by it. Some clients (kafka-python)
drop what they have received when they find in the same moment that the connection is closed, and never learn why."""
_CLOSING_CHECK_SECONDS: Final = 0.02
_LENGTH: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")

Handle = Callable[[memoryview, Connection], Outcome]
NameClient = Callable[[Accepted, str], Principal]
"""Returns who a client is that has logged in by a mechanism; raises UnknownClient if it is refused nevertheless."""


class SaslGate:
    """The gate of one connection, which it belongs to until `Connection.gate` is None.

    Args:
        connection: without a login yet.
        sasl: of the listener.
        handle: what handles the frames that may pass.
        clock: says when credentials expire.
        name_client: says who a client is that has logged in.
    """

    __slots__ = (
        "_authentication",
        "_began_at",
        "_clock",
        "_connection",
        "_exchange",
        "_expires_at",
        "_handle",
        "_login",
        "_loop",
        "_name_client",
        "_renewed_at",
        "_sasl",
    )

    def __init__(
        self,
        connection: Connection,
        sasl: ListenerSasl,
        handle: Handle,
        clock: Clock,
        name_client: NameClient = lambda accepted, _: accepted.principal,
    ) -> None:
        self._connection = connection
        self._sasl = sasl
        self._handle = handle
        self._clock = clock
        self._name_client = name_client
        self._loop = asyncio.get_running_loop()
        self._authentication: Authentication | None = Authentication()
        self._began_at = self._loop.time()
        self._exchange: Exchange | None = None
        self._login: Login | None = None
        self._expires_at = 0.0
        self._renewed_at: float | None = None

    @property
    def request_bytes_max(self) -> int | None:
        """The largest request, None where the broker's own limit holds."""
        return self._sasl.settings.receive_bytes_max if self._login is None else None

    def is_overdue(self, now: float) -> bool:
        """Return whether a login takes too long, by the loop's clock; the time of a throttle does not count."""
        if self._connection.throttle_ms:
            self._began_at = now
            return False
        return self._authentication is not None and now - self._began_at > AUTHENTICATION_SECONDS_MAX

    def handle(self, frame: memoryview) -> Outcome:
        """Handle a frame.

        Raises:
            InvalidRequest: it is no request; close the connection.
        """
        authentication = self._authentication
        if authentication is None:
            return self._in_session(frame)
        if authentication.phase is Phase.OVER:
            self._connection.close()
            return None
        if authentication.phase is Phase.EXPECTS_BARE_FRAMES:
            return started(self._take_bare_frame(authentication, bytes(frame)))
        header = read_request_header(frame)
        why = authentication.why_refused(header.api_key)
        if why is not None:
            return started(self._refuse(authentication, why, _out_of_turn(header)))
        if header.api_key == API_VERSIONS_KEY:
            return self._handle_uncharged(frame, header)
        return self._take_request(authentication, frame, header)

    def _handle_uncharged(self, frame: memoryview, header: RequestHeader) -> Outcome:
        """Pass a request on that costs no quota, or whoever can connect could use up those of others."""
        self._connection.charge = NoCharge(header)
        try:
            return self._handle(frame, self._connection)
        finally:
            self._connection.charge = None

    def _in_session(self, frame: memoryview) -> Outcome:
        """Pass a request on while the login holds; a handshake may begin to renew it, even afterwards."""
        assert self._login is not None
        now = self._loop.time()
        (api_key,) = _API_KEY.unpack_from(frame) if len(frame) >= _API_KEY.size else (-1,)
        if api_key == SASL_HANDSHAKE_KEY and self._may_renew(now):
            self._authentication = Authentication(self._login)
            self._began_at = self._renewed_at = now
            for delayed in tuple(self._connection.delayed):
                delayed.hurry()
            return self.handle(frame)
        if api_key != SASL_HANDSHAKE_KEY and now > self._expires_at:
            self._sasl.counts.expired += 1
            self._connection.close("the login has expired and was not renewed")
            return None
        return self._handle(frame, self._connection)

    def _may_renew(self, now: float) -> bool:
        return self._renewed_at is None or now - self._renewed_at >= RENEWAL_SECONDS_MIN

    def _take_request(self, authentication: Authentication, frame: memoryview, header: RequestHeader) -> Outcome:
        if not 0 <= header.api_version <= newest_version(header.api_key):
            raise InvalidRequest(f"unsupported version {header.api_version} of {api_name(header.api_key)}")
        codec = message_codec(header.api_key, header.api_version)
        message: Any = codec.read_request(frame, header)
        if header.api_key == SASL_AUTHENTICATE_KEY:
            return started(self._take_message(authentication, bytes(message.auth_bytes), header, codec))
        enabled = self._sasl.settings.mechanisms
        why = authentication.why_not_mechanism(message.mechanism, enabled)
        code = ErrorCode.none if why is None else ErrorCode.unsupported_sasl_mechanism
        answer = _encoded(header, codec, SaslHandshakeResponse(error_code=code, mechanisms=enabled), code)
        if why is not None:
            return started(self._refuse(authentication, why, answer))
        authentication.choose(message.mechanism, header.api_version)
        self._exchange = self._sasl.exchange(message.mechanism)
        return answer

    async def _take_message(
        self, authentication: Authentication, message: bytes, header: RequestHeader, codec: MessageCodec
    ) -> Parts | None:
        """Answer a message of the mechanism in a SaslAuthenticate request."""

        def answer(auth_bytes: bytes, lifetime_ms: int = 0, refusal: str | None = None) -> Parts:
            code = ErrorCode.none if refusal is None else ErrorCode.sasl_authentication_failed
            response = SaslAuthenticateResponse(
                error_code=code,
                error_message=refusal,
                auth_bytes=auth_bytes,
                session_lifetime=i64Timedelta.parse(timedelta(milliseconds=lifetime_ms)),
            )
            return _encoded(header, codec, response, code)

        step = await self._step(authentication, message)
        if isinstance(step, Challenge):
            return answer(step.message)
        if isinstance(step, Accepted):
            changed = authentication.why_not_principal(step.principal)
            if changed is not None:
                return await self._refuse(authentication, changed, answer(b"", refusal=changed))
            return answer(step.message, self._admit(authentication, step))
        return await self._refuse(authentication, step.reason, answer(b"", refusal=authentication.refusal()))

    async def _take_bare_frame(self, authentication: Authentication, message: bytes) -> Parts | None:
        """Answer a message of the mechanism that comes as it is, likewise; a failure is not answered."""
        why = authentication.why_no_round()
        step = await self._step(authentication, message) if why is None else Refused(why)
        if isinstance(step, Accepted):
            changed = authentication.why_not_principal(step.principal)
            if changed is None:
                self._admit(authentication, step)
            else:
                step = Refused(changed)
        if isinstance(step, Refused):
            return await self._refuse(authentication, step.reason)
        return [_LENGTH.pack(len(step.message)) + step.message]

    async def _step(self, authentication: Authentication, message: bytes) -> Challenge | Accepted | Refused:
        assert self._exchange is not None
        step = await self._sasl.next_step(self._exchange, authentication.mechanism, message)
        if isinstance(step, Challenge) and step.refusal:
            # Not when the exchange ends: a client that leaves before would try tokens at no cost.
            await self._note_failure(authentication, step.refusal)
        if not isinstance(step, Accepted):
            return step
        try:
            return replace(step, principal=self._name_client(step, authentication.mechanism))
        except UnknownClient as unknown:
            return Refused(str(unknown))

    def _admit(self, authentication: Authentication, accepted: Accepted) -> int:
        """Let the client's requests pass; return for how many milliseconds, 0 for ever."""
        authentication.end()
        self._exchange = self._authentication = None
        self._sasl.counts.succeeded += 1
        connection = self._connection
        connection.principal = accepted.principal
        connection.is_token_authenticated = accepted.by_token
        self._login = Login(accepted.principal, authentication.mechanism)
        reauthentication_ms = self._sasl.settings.reauthentication_ms[authentication.mechanism]
        lifetime_ms = session_lifetime_ms(accepted.expires_ms, reauthentication_ms, self._clock.time_ms())
        if lifetime_ms is None:
            connection.gate = None
            return 0
        self._expires_at = self._loop.time() + lifetime_ms / 1000
        return lifetime_ms

    async def _refuse(self, authentication: Authentication, reason: str, told: Parts | None = None) -> Parts | None:
        """End the connection after a delay, and after what the client is told."""
        authentication.end()
        self._exchange = None
        await self._note_failure(authentication, reason)
        linger_s = 0.0 if told is None else LINGER_SECONDS
        self._loop.call_soon(self._close_when_told, self._loop.time() + CLOSING_SECONDS_MAX, linger_s)
        return told

    async def _note_failure(self, authentication: Authentication, reason: str) -> None:
        """Count a login as failed and have the client wait, once."""
        if authentication.is_failure_noted:
            return
        authentication.is_failure_noted = True
        self._sasl.note_failure(self._connection.peer, authentication.kind, reason)
        await asyncio.sleep(self._sasl.failure_delay_s)

    def _close_when_told(self, deadline: float, linger_s: float) -> None:
        if self._connection.is_closed:
            return
        if self._loop.time() > deadline:
            self._connection.close()
        elif self._connection.is_idle and linger_s:
            self._loop.call_later(linger_s, self._connection.close)
        elif self._connection.is_idle:
            self._connection.close()
        else:
            self._loop.call_later(_CLOSING_CHECK_SECONDS, self._close_when_told, deadline, linger_s)


def _out_of_turn(header: RequestHeader) -> Parts | None:
    """Return what a client is told that names a mechanism for a second time; other requests are not answered."""
    if header.api_key != SASL_HANDSHAKE_KEY or not 0 <= header.api_version <= newest_version(SASL_HANDSHAKE_KEY):
        return None
    code = ErrorCode.illegal_sasl_state
    codec = message_codec(header.api_key, header.api_version)
    return _encoded(header, codec, SaslHandshakeResponse(error_code=code), code)


def _encoded(header: RequestHeader, codec: MessageCodec, response: Entity, code: ErrorCode) -> Parts:
    if code is not ErrorCode.none:
        count_error(header.api_key, code)
    return [codec.encode_response(header.correlation_id, response)]
