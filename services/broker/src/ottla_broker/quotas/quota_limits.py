"""Which quota holds for a client, and with whom the client shares it. Pure.

Quotas are of a user, a client id or both, and of defaults. The most specific one that is set holds, in Kafka's order:
of the user and the client id, of the user and its default client id, of the user, of the default user and the client
id, of both defaults, of the default user, of the client id, of the default client id.

A quota that is found by a client id, or by a default of client ids, holds for each client id by itself; one of a user
holds for all of the user's clients together. A default of users holds for each user by itself.

Source: Kafka's ClientQuotaManager.DefaultQuotaCallback.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, QuotaName

USER, CLIENT_ID, IP = QuotaEntityKind.USER, QuotaEntityKind.CLIENT_ID, QuotaEntityKind.IP

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """A quota that holds for a client.

    Attributes:
        per_second: the quota; for `request_percentage` in percent of one second.
        user: whose use counts; None where the quota is of a client id of any user.
        client_id: of which client id; None where the quota is of all of the user's.
    """

    per_second: float
    user: str | None
    client_id: str | None


def limit_of(quotas: Quotas, name: QuotaName, user: str, client_id: str) -> QuotaLimit | None:
    """Return the quota that holds for a client, None if there is none."""
    for entity, counted in _in_order(user, client_id):
        found = quotas.get(entity)
        if found is not None and name in found:
            return QuotaLimit(found[name], *counted)
    return None


def _in_order(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, tuple[str | None, str | None]]]:
    both = (user, client_id)
    for user_name in (user, None):
        for client_name in (client_id, None):
            yield QuotaEntity(((USER, user_name), (CLIENT_ID, client_name))), both
        yield QuotaEntity(((USER, user_name),)), (user, None)
    for client_name in (client_id, None):
        yield QuotaEntity(((CLIENT_ID, client_name),)), (None, client_id)


def names_of_clients(quotas: Quotas) -> frozenset[str]:
    """Return what is limited of any client."""
    return frozenset(name for entity, named in quotas.items() if entity.names[0][0] is not IP for name in named)


def connection_rates(quotas: Quotas) -> Mapping[str | None, float]:
    """Return how many connections a second addresses may make, by address; None stands for all others."""
    rates: dict[str | None, float] = {}
    for entity, named in quotas.items():
        kind, address = entity.names[0]
        rate = named.get(QuotaName.CONNECTION_CREATION_RATE)
        if kind is IP and rate is not None:
            rates[None if address is None else str(ip_address(address))] = rate
    return rates
