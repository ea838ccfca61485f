"""Which processes may call the controller's methods. Pure.

All come from brokers, which ask for their clients. A call that a broker makes for itself names it, and is refused to
every other.
"""

from typing import Final

from ottla_core.rpc.call_rules import BY_BROKERS, BY_THE_BROKER_NAMED, CallRule, CallRules

_RULES: Final[dict[str, CallRule]] = {
    "CreateTopics": BY_BROKERS,
    "DeleteTopics": BY_BROKERS,
    "CreatePartitions": BY_BROKERS,
    "AlterConfigs": BY_BROKERS,
    "AllocateProducerIds": BY_THE_BROKER_NAMED,
    "AlterPartitions": BY_THE_BROKER_NAMED,
    "ElectLeaders": BY_BROKERS,
    "AlterReassignments": BY_BROKERS,
    "UnregisterBroker": BY_BROKERS,  # its broker_id is of another one, which has left
    "UpdateFeatures": BY_BROKERS,
    "CreateLink": BY_BROKERS,
    "AlterLink": BY_BROKERS,
    "DeleteLink": BY_BROKERS,
    "CreateLinkedTopics": BY_BROKERS,
    "AddLinkedPartitions": BY_BROKERS,
    "KeepLink": BY_THE_BROKER_NAMED,
    "RaiseLeaderEpochs": BY_THE_BROKER_NAMED,
    "PromoteLinked": BY_BROKERS,
    "AlterAcls": BY_BROKERS,
    "AlterQuotas": BY_BROKERS,
    "AlterScramCredentials": BY_BROKERS,
    "CreateDelegationToken": BY_BROKERS,
    "AlterDelegationToken": BY_BROKERS,
}
CALL_RULES: Final[CallRules] = {f"/ottla.controller.v1.Controller/{method}": rule for method, rule in _RULES.items()}
