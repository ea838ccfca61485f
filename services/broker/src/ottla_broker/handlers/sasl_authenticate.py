"""SaslAuthenticate (key 36), where it is out of place: a login goes through `sasl_gate.py`, not through handlers."""

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse

from ottla_broker.broker import Broker, Request
from ottla_broker.outcome import Parts


def handle(broker: Broker, request: Request) -> Parts:
    """Refuse: no SaslHandshake has gone before that was answered without an error."""
    del broker
    return request.respond(
        SaslAuthenticateResponse(
            error_code=ErrorCode.illegal_sasl_state,
            error_message="SaslAuthenticate request received after successful authentication",
            auth_bytes=b"",
        )
    )
