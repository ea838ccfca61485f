"""Which processes may call a group coordinator: brokers, each for itself. Pure."""

from typing import Final

from ottla_core.rpc.call_rules import CallRule, CallRules
from ottla_core.rpc.group_relay import broker_of_stream
from ottla_core.rpc_identity import BROKER

CALL_RULES: Final[CallRules] = {
    "/ottla.group_relay.v1.GroupRelay/Relay": CallRule(frozenset({BROKER}), broker_of_stream),
}
