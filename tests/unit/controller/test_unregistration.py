"""Brokers that leave for good."""

import pytest

from ottla_controller.unregistration import plan_unregistration
from ottla_core.cluster.state.model import BrokerRegistration, PartitionState
from ottla_core.errors import BrokerIdNotRegistered, InvalidRequest
from tests.support.controller.replica_rules import live, partition, remembered, rules, stand, state_of


def unregister(broker_id: int, *partitions: PartitionState) -> tuple[list[PartitionState], BrokerRegistration]:
    brokers = live("1@5", "2@6")
    state = state_of(*partitions, brokers=brokers, registrations=remembered("1@5", "2@6", "3@7"))
    return plan_unregistration(broker_id, state, stand(brokers), rules_of=lambda _: rules(2))


def test_a_broker_that_has_left_loses_its_claim_to_have_every_record() -> None:
    changed, registration = unregister(
        3, partition("1", "1@5", eligible="3"), partition("12", "1@5", index=1), partition("1", "1@5", index=2)
    )
    assert changed == [partition("1", "1@5")]
    assert registration.broker_id == 3


def test_refusals() -> None:
    with pytest.raises(InvalidRequest, match="Broker 1 is running"):
        unregister(1)
    with pytest.raises(BrokerIdNotRegistered, match="Broker id 4"):
        unregister(4)
    with pytest.raises(InvalidRequest, match="Only broker 3 has the newest records of t-1"):
        unregister(3, partition("12", "1@5"), partition("", "none", eligible="3", index=1))
