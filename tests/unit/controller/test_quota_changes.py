"""Which quotas can be set, and what is written of them."""

from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from ottla_controller import quota_changes
from ottla_controller.quota_changes import plan_alterations
from ottla_core.cluster.controller_rpc.quota_messages import EntityParts, QuotaAlteration
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, SecurityState
from ottla_core.errors import CodedError, PolicyViolation
from tests.unit.controller.test_feature_updates import upgraded_cluster

ADA: EntityParts = (("user", "ada"),)
ADA_ENTITY = QuotaEntity(((QuotaEntityKind.USER, "ada"),))
EMPTY = upgraded_cluster(3)
LIMITED = replace(EMPTY, security=SecurityState(client_quotas={ADA_ENTITY: {"producer_byte_rate": 5.0}}))


def test_quotas_are_set_and_others_of_the_entity_stay() -> None:
    plan = plan_alterations([(ADA, [("consumer_byte_rate", 7.0)])], LIMITED)
    assert plan.results == {ADA: None}
    assert plan.written == {ADA_ENTITY: {"producer_byte_rate": 5.0, "consumer_byte_rate": 7.0}}


def test_an_entity_without_quotas_left_goes() -> None:
    plan = plan_alterations([(ADA, [("producer_byte_rate", None)])], LIMITED)
    assert plan.written == {ADA_ENTITY: {}}


def test_what_is_so_already_is_not_written() -> None:
    assert not plan_alterations([(ADA, [("producer_byte_rate", 5.0), ("request_percentage", None)])], LIMITED).written


def test_kinds_may_come_in_any_order() -> None:
    plan = plan_alterations([((("user", None), ("client-id", "app")), [("request_percentage", 0.5)])], EMPTY)
    entity = QuotaEntity(((QuotaEntityKind.USER, None), (QuotaEntityKind.CLIENT_ID, "app")))
    assert plan.written == {entity: {"request_percentage": 0.5}}


@pytest.mark.parametrize(
    ("entity", "name", "value", "reason"),
    [
        ((), "producer_byte_rate", 1.0, "empty client quota entity"),
        ((("planet", "earth"),), "producer_byte_rate", 1.0, "planet"),
        ((("ip", "10.0.0.1"), ("user", "ada")), "connection_creation_rate", 1.0, "combined"),
        ((("ip", "no address"),), "connection_creation_rate", 1.0, "no address"),
        ((("ip", "10.0.0.1"),), "producer_byte_rate", 1.0, "producer_byte_rate"),
        (ADA, "connection_creation_rate", 1.0, "connection_creation_rate"),
        (ADA, "no_such_rate", 1.0, "no_such_rate"),
        (ADA, "producer_byte_rate", 0.0, "greater than 0"),
        (ADA, "producer_byte_rate", -1.0, "greater than 0"),
        (ADA, "request_percentage", float("nan"), "greater than 0"),
        (ADA, "request_percentage", float("inf"), "finite"),
        (ADA, "producer_byte_rate", 1.5, "fractional"),
        (ADA, "producer_byte_rate", 1e-308, "1 is the smallest"),
        (ADA, "request_percentage", 1e-308, "1e-06 is the smallest"),
        (ADA, "controller_mutation_rate", 9e-7, "1e-06 is the smallest"),
        (ADA, "producer_byte_rate", 1e19, "too large"),
        ((("ip", "10.0.0.1"),), "connection_creation_rate", 2.0**31, "too large"),
    ],
)
def test_what_cannot_be_is_refused(entity: EntityParts, name: str, value: float, reason: str) -> None:
    plan = plan_alterations([(entity, [(name, value)])], EMPTY)
    (error,) = plan.results.values()
    assert error is not None
    assert error.code is ErrorCode.invalid_request
    assert reason in error.message
    assert not plan.written


def test_one_wrong_quota_keeps_an_entity_as_it_is_and_the_others_are_changed() -> None:
    bob: EntityParts = (("user", "bob"),)
    plan = plan_alterations(
        [(ADA, [("consumer_byte_rate", 7.0), ("x", 1.0)]), (bob, [("consumer_byte_rate", 7.0)])], LIMITED
    )
    assert plan.results[ADA] is not None
    assert plan.results[bob] is None
    assert [*plan.written] == [QuotaEntity(((QuotaEntityKind.USER, "bob"),))]


def test_a_quota_that_is_named_twice_is_refused() -> None:
    plan = plan_alterations([(ADA, [("consumer_byte_rate", 7.0), ("consumer_byte_rate", 8.0)])], EMPTY)
    assert "Duplicate quota key" in str(plan.results[ADA])


def test_a_cluster_of_a_former_level_takes_no_quotas() -> None:
    with pytest.raises(CodedError, match="ottla cluster features upgrade"):
        plan_alterations([(ADA, [("consumer_byte_rate", 7.0)])], upgraded_cluster(2))


def test_the_entities_of_a_cluster_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_changes, "QUOTA_ENTITIES_MAX", 1)
    with pytest.raises(PolicyViolation, match="use defaults"):
        plan_alterations([((("user", "bob"),), [("consumer_byte_rate", 7.0)])], LIMITED)
    bob_for_ada: list[QuotaAlteration] = [
        (ADA, [("producer_byte_rate", None)]),
        ((("user", "bob"),), [("consumer_byte_rate", 7.0)]),
    ]
    assert len(plan_alterations(bob_for_ada, LIMITED).written) == 2
