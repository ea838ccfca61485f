"""Which of several quotas holds, in Kafka's order."""

import pytest

from ottla_broker.quotas.quota_limits import QuotaLimit, Quotas, connection_rates, limit_of, names_of_clients
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, QuotaName

USER, CLIENT_ID, IP = QuotaEntityKind.USER, QuotaEntityKind.CLIENT_ID, QuotaEntityKind.IP
RATE = QuotaName.PRODUCER_BYTE_RATE
IN_ORDER = [
    (QuotaEntity(((USER, "ada"), (CLIENT_ID, "app"))), ("ada", "app")),
    (QuotaEntity(((USER, "ada"), (CLIENT_ID, None))), ("ada", "app")),
    (QuotaEntity(((USER, "ada"),)), ("ada", None)),
    (QuotaEntity(((USER, None), (CLIENT_ID, "app"))), ("ada", "app")),
    (QuotaEntity(((USER, None), (CLIENT_ID, None))), ("ada", "app")),
    (QuotaEntity(((USER, None),)), ("ada", None)),
    (QuotaEntity(((CLIENT_ID, "app"),)), (None, "app")),
    (QuotaEntity(((CLIENT_ID, None),)), (None, "app")),
]
"""Entities with quotas for the same client, the one that holds first, and with whom it shares them."""


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_most_specific_quota_holds(first: int) -> None:
    quotas: Quotas = {
        entity: {RATE: float(number + 1)} for number, (entity, _) in enumerate(IN_ORDER) if number >= first
    }
    assert limit_of(quotas, RATE, "ada", "app") == QuotaLimit(first + 1.0, *IN_ORDER[first][1])


def test_an_entity_without_this_kind_of_quota_is_passed_over() -> None:
    quotas: Quotas = {IN_ORDER[0][0]: {QuotaName.REQUEST_PERCENTAGE: 1.0}, IN_ORDER[7][0]: {RATE: 8.0}}
    assert limit_of(quotas, RATE, "ada", "app") == QuotaLimit(8.0, None, "app")


def test_a_quota_of_others_does_not_hold() -> None:
    quotas: Quotas = {QuotaEntity(((USER, "bob"),)): {RATE: 1.0}, QuotaEntity(((CLIENT_ID, "other"),)): {RATE: 1.0}}
    assert limit_of(quotas, RATE, "ada", "app") is None


def test_rates_of_connections_are_of_addresses_and_limit_no_requests() -> None:
    quotas: Quotas = {
        QuotaEntity(((IP, "0:0::1"),)): {QuotaName.CONNECTION_CREATION_RATE: 3.0},
        QuotaEntity(((IP, None),)): {QuotaName.CONNECTION_CREATION_RATE: 5.0},
    }
    assert connection_rates(quotas) == {"::1": 3.0, None: 5.0}
    assert not names_of_clients(quotas)
