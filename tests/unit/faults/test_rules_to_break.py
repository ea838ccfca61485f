"""Each rule that is broken on purpose is one that services go by."""

import pkgutil
from importlib import import_module

import pytest

import ottla_broker
import ottla_controller
import ottla_core
import ottla_group_coordinator
import ottla_mirror
from tests.faults import broken_rules as of_services
from tests.faults.mirrors import broken_rules as of_mirrors
from tests.faults.transactions import broken_rules as of_transactions
from tests.simulation import broken_rules as of_simulation
from tests.support.replaced_rule import check_is_rule


@pytest.fixture(scope="module", autouse=True)
def _all_readers() -> None:
    for package in (ottla_broker, ottla_controller, ottla_core, ottla_group_coordinator, ottla_mirror):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(found.name)


@pytest.mark.parametrize("rule", of_services.RULES)
def test_a_rule_of_services_is_where_it_is_broken(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = []

    def note(owner: object, name: str, wrong: object) -> None:
        check_is_rule(owner, name, wrong)
        broken.append(name)

    for rules in (of_services, of_mirrors, of_transactions):
        monkeypatch.setattr(rules, "replace_rule", note)
    of_services.RULES[rule]()
    assert broken


@pytest.mark.parametrize("rule", of_simulation.BROKEN_RULES)
def test_a_rule_of_replication_is_where_it_is_broken(rule: str) -> None:
    with of_simulation.broken(rule):
        pass
