"""Who may make which call: a rule for each gRPC method, in a table beside the service that answers. Pure.

A method without a rule is refused to everybody, and a test finds it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla_core.rpc_identity import ADMIN, BROKER, ROLES, RpcIdentity

Metadata = Mapping[str, str | bytes]
ClaimedBroker = Callable[[Any, Metadata], int | None]
"""Returns the broker that a call says it comes from, by the request (None for a stream) and the call's metadata."""


def broker_of_request(request: Any, _metadata: Metadata) -> int | None:
    """Return the field ``broker_id`` of the request."""
    return int(request.broker_id)


@dataclass(frozen=True, slots=True)
class CallRule:
    """Who may make a call.

    Attributes:
        roles: the roles that may.
        claimed_broker: reads the broker that the call says it comes from, which must be the one that calls; a call
            of which it reads none is refused. None where calls say nothing of the kind.
    """

    roles: frozenset[str]
    claimed_broker: ClaimedBroker | None = None


CallRules = Mapping[str, CallRule]
"""By a method's full name, ``/package.Service/Method``."""

HEALTH_RULES: Final[CallRules] = {
    f"/grpc.health.v1.Health/{method}": CallRule(frozenset(ROLES)) for method in ("Check", "List", "Watch")
}
"""Every process may ask every other whether it is well, and an administrator all of them."""
BY_BROKERS: Final = CallRule(frozenset({BROKER}))
BY_THE_BROKER_NAMED: Final = CallRule(frozenset({BROKER}), broker_of_request)
"""The request has a ``broker_id``, which must be that of the broker that calls."""
BY_ADMINISTRATORS: Final = CallRule(frozenset({ADMIN}))

NO_RULE: Final = "no_rule"
UNKNOWN_IDENTITY: Final = "unknown_identity"
ROLE_NOT_ALLOWED: Final = "role_not_allowed"
OTHER_BROKER: Final = "other_broker"


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """Why a call is refused: a word for metrics, and a sentence for both sides' logs."""

    reason: str
    message: str


def judge_call(
    method: str,
    rule: CallRule | None,
    identities: Iterable[RpcIdentity],
    names: Iterable[str],
    claimed: Callable[[], int | None],
) -> CallRefusal | None:
    """Return why a call is refused, or None if it may be made.

    Args:
        method: its full name.
        rule: of the method; None if it has none.
        identities: the processes that the caller's certificate stands for.
        names: all DNS names of that certificate, for messages.
        claimed: returns the broker that the call says it comes from.
    """
    callers = frozenset(identities)
    if rule is None:
        return CallRefusal(NO_RULE, f"{method}: no rule says who may make this call")
    if len(callers) != 1:
        shown = ", ".join(sorted(names)) or "none"
        found = "no process" if not callers else "several processes"
        return CallRefusal(UNKNOWN_IDENTITY, f"{method}: the certificate stands for {found} of this cluster: {shown}")
    (caller,) = callers
    if caller.role not in rule.roles:
        allowed = " or ".join(sorted(rule.roles))
        return CallRefusal(
            ROLE_NOT_ALLOWED,
            f"{method}: a certificate of {caller}, for a call that only role {allowed} may make",
        )
    if rule.claimed_broker is None or caller.role != BROKER:
        return None
    broker = claimed()
    if broker == caller.id:
        return None
    said = f"that says it is of broker {broker}" if broker is not None else "that does not say which broker it is of"
    return CallRefusal(OTHER_BROKER, f"{method}: a certificate of {caller} for a call {said}")
