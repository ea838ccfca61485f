"""SaslHandshake (key 17), where it is out of place: a login goes through `sasl_gate.py` and not through handlers."""

from kio.schema.errors import ErrorCode
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from ottla_broker.broker import Broker, Request
from ottla_broker.outcome import Parts


def handle(broker: Broker, request: Request) -> Parts:
    """Refuse: the listener has no logins, or the client has logged in and need not do so again (yet)."""
    del broker
    return request.respond(SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state))
