"""Who may make which call, by the certificate's name; and that no method of any service is without a rule."""

import importlib
import pkgutil

import pytest
from google.protobuf.descriptor import ServiceDescriptor

import ottla_proto.gen.ottla
from ottla_controller.call_rules import CALL_RULES as OF_CONTROLLERS
from ottla_core.rpc.call_rules import (
    BY_BROKERS,
    BY_THE_BROKER_NAMED,
    HEALTH_RULES,
    NO_RULE,
    OTHER_BROKER,
    ROLE_NOT_ALLOWED,
    UNKNOWN_IDENTITY,
    CallRule,
    judge_call,
)
from ottla_core.rpc_identity import NAME_PATTERN, RpcIdentity, RpcNames, check_pattern
from ottla_group_coordinator.call_rules import CALL_RULES as OF_GROUP_COORDINATORS

NAMES = RpcNames(NAME_PATTERN, "flights")


def services() -> list[ServiceDescriptor]:
    modules = [
        importlib.import_module(f"ottla_proto.gen.ottla.{module.name}")
        for module in pkgutil.iter_modules(ottla_proto.gen.ottla.__path__)
        if module.name.endswith("_pb2")
    ]
    return [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]


def test_every_method_of_every_service_has_a_rule_and_no_rule_is_for_a_method_that_is_gone() -> None:
    methods = {f"/{service.full_name}/{method.name}" for service in services() for method in service.methods}
    assert len(methods) > 10
    assert methods == {*OF_CONTROLLERS, *OF_GROUP_COORDINATORS}


def test_a_request_that_names_the_broker_it_comes_from_is_compared_with_the_caller() -> None:
    """`epoch` beside `broker_id` is how a broker speaks of itself; UnregisterBroker names another one."""
    for service in services():
        for method in service.methods:
            fields = method.input_type.fields_by_name
            rule = (OF_CONTROLLERS | OF_GROUP_COORDINATORS)[f"/{service.full_name}/{method.name}"]
            if "broker_id" in fields and "broker_epoch" in fields:
                assert rule == BY_THE_BROKER_NAMED, method.full_name
            elif rule == BY_THE_BROKER_NAMED:
                assert "broker_id" in fields, method.full_name


def judged(rule: CallRule | None, *names: str, claims: int | None = None) -> str | None:
    refusal = judge_call("/a/B", rule, NAMES.identities(names), names, lambda: claims)
    return refusal.reason if refusal else None


def test_a_broker_may_call_what_is_for_brokers() -> None:
    assert judged(BY_BROKERS, "broker-1.flights.ottla", "host.example") is None
    assert judged(BY_THE_BROKER_NAMED, "broker-7.flights.ottla", claims=7) is None


@pytest.mark.parametrize(
    ("rule", "names", "claims", "reason"),
    [
        (None, ["broker-1.flights.ottla"], None, NO_RULE),
        (BY_BROKERS, [], None, UNKNOWN_IDENTITY),
        (BY_BROKERS, ["host.example"], None, UNKNOWN_IDENTITY),
        (BY_BROKERS, ["broker-1.other.ottla"], None, UNKNOWN_IDENTITY),
        (BY_BROKERS, ["broker-1.flights.ottla.example"], None, UNKNOWN_IDENTITY),
        (BY_BROKERS, ["broker-01.flights.ottla"], None, UNKNOWN_IDENTITY),
        (BY_BROKERS, ["*.flights.ottla"], None, UNKNOWN_IDENTITY),
        (BY_BROKERS, ["broker-1.flights.ottla", "controller-1.flights.ottla"], None, UNKNOWN_IDENTITY),
        (BY_BROKERS, ["controller-1.flights.ottla"], None, ROLE_NOT_ALLOWED),
        (BY_BROKERS, ["admin-0.flights.ottla"], None, ROLE_NOT_ALLOWED),
        (BY_THE_BROKER_NAMED, ["broker-1.flights.ottla"], 2, OTHER_BROKER),
        (BY_THE_BROKER_NAMED, ["broker-1.flights.ottla"], None, OTHER_BROKER),
    ],
)
def test_everybody_else_is_refused(rule: CallRule | None, names: list[str], claims: int | None, reason: str) -> None:
    assert judged(rule, *names, claims=claims) == reason


def test_the_message_says_whose_certificate_it_is_and_for_what() -> None:
    names = ("group-coordinator-3.flights.ottla",)
    refusal = judge_call("/a/B", BY_BROKERS, NAMES.identities(names), names, lambda: None)
    assert refusal is not None
    assert refusal.message == "/a/B: a certificate of group-coordinator 3, for a call that only role broker may make"


def test_every_known_process_may_ask_for_health() -> None:
    for role in ("broker", "controller", "group-coordinator", "admin"):
        for rule in HEALTH_RULES.values():
            assert judged(rule, NAMES.name_of(RpcIdentity(role, 0))) is None


@pytest.mark.parametrize(
    "pattern", ["{role}", "{id}", "{role}{id}", "{role}-{id} x", "{role}-{id}-{id}", "*.{role}-{id}"]
)
def test_a_pattern_that_tells_nobody_apart_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"write|besides|put"):
        check_pattern(pattern)


def test_names_of_another_form_can_be_used() -> None:
    names = RpcNames(check_pattern("{id}.{role}.Kafka.example"), "flights")
    assert names.name_of(RpcIdentity("broker", 12)) == "12.broker.kafka.example"
    assert names.identities(["12.Broker.kafka.example"]) == {RpcIdentity("broker", 12)}
