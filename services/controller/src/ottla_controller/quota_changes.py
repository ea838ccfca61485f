"""Which quotas of clients are set and removed. Pure.

Each entity succeeds or fails by itself. Source of the rules: Kafka's ClientQuotaControlManager and QuotaConfig; a
host's name is no address here, as no process looks names up.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from ottla_controller.security_level import check_security_level
from ottla_core.cluster.controller_rpc.quota_messages import EntityParts, QuotaAlteration
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, QuotaName
from ottla_core.errors import InvalidRequest, KafkaError, PolicyViolation

QUOTA_ENTITIES_MAX: Final = 50_000
"""Entities with quotas of a cluster: every process keeps all of them."""
LARGEST_BY_NAME: Final[Mapping[QuotaName, int]] = {
    QuotaName.PRODUCER_BYTE_RATE: 2**63 - 1,
    QuotaName.CONSUMER_BYTE_RATE: 2**63 - 1,
    QuotaName.CONNECTION_CREATION_RATE: 2**31 - 1,
}
"""The quotas that are whole numbers, and the largest of each."""
SMALLEST: Final = 1e-6
"""The smallest of the other quotas. Kafka takes whatever is above 0; less would throttle one request for weeks."""
OF_ADDRESSES: Final = frozenset({QuotaName.CONNECTION_CREATION_RATE})
OF_CLIENTS: Final = frozenset(QuotaName) - OF_ADDRESSES


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """What a request comes to.

    Attributes:
        results: for each entity that was named, why nothing is done for it; None if it is.
        written: the quotas that entities have then; none if there are none left.
    """

    results: Mapping[EntityParts, KafkaError | None]
    written: Mapping[QuotaEntity, Mapping[str, float]]


def plan_alterations(alterations: Sequence[QuotaAlteration], state: ClusterState) -> QuotaPlan:
    """Return what a request comes to.

    Raises:
        CodedError: the cluster is at a level of features without quotas.
        PolicyViolation: there would be too many entities; nothing is done.
    """
    check_security_level(state)
    known = state.security.client_quotas
    results: dict[EntityParts, KafkaError | None] = {}
    written: dict[QuotaEntity, Mapping[str, float]] = {}
    for entity_parts, changes in alterations:
        named = tuple(sorted(entity_parts, key=str))
        if named in results:
            results[named] = InvalidRequest(f"Ignoring duplicate entity {_shown(named)}")
            continue
        try:
            entity = entity_of(named)
            quotas = _changed(entity, changes, known.get(entity, {}))
        except KafkaError as error:
            results[named] = error
            continue
        results[named] = None
        if quotas != known.get(entity, {}):
            written[entity] = quotas
    _check_number(known, written)
    return QuotaPlan(results, written)


def entity_of(parts: EntityParts) -> QuotaEntity:
    """Return the entity of these kinds and names.

    Raises:
        InvalidRequest: no quota can be of it.
    """
    if not parts:
        raise InvalidRequest("Invalid empty client quota entity")
    names: dict[QuotaEntityKind, str | None] = {}
    for kind_name, name in parts:
        if kind_name not in {*QuotaEntityKind}:
            raise InvalidRequest(f"Unhandled client quota entity type: {kind_name}")
        kind = QuotaEntityKind(kind_name)
        if kind in names:
            raise InvalidRequest(f"Invalid client quota entity, duplicate entity entry {kind_name}")
        names[kind] = name
    if QuotaEntityKind.IP in names:
        if len(names) > 1:
            raise InvalidRequest(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        _check_address(names[QuotaEntityKind.IP])
    return QuotaEntity(tuple((kind, names[kind]) for kind in QuotaEntityKind if kind in names))


def _check_address(name: str | None) -> None:
    if name is None:
        return
    try:
        ip_address(name)
    except ValueError:
        raise InvalidRequest(f"{name} is not a valid IP; a quota is of an address, not of a host's name") from None


def _changed(
    entity: QuotaEntity, changes: Sequence[tuple[str, float | None]], quotas: Mapping[str, float]
) -> Mapping[str, float]:
    """Return the quotas that an entity has after the changes.

    Raises:
        InvalidRequest: one of them cannot be; none is done.
    """
    changed = dict(quotas)
    seen: set[str] = set()
    for name, value in changes:
        if name in seen:
            raise InvalidRequest(f"Duplicate quota key {name} not updating quota for this entity {entity}")
        seen.add(name)
        if value is None:
            changed.pop(name, None)
        else:
            _check_value(entity, name, value)
            changed[name] = value
    return changed


def _check_value(entity: QuotaEntity, name: str, value: float) -> None:
    is_address = entity.names[0][0] is QuotaEntityKind.IP
    if name not in (OF_ADDRESSES if is_address else OF_CLIENTS):
        raise InvalidRequest(f"Invalid configuration key {name}")
    if not (value > 0 and math.isfinite(value)):
        raise InvalidRequest(f"Quota {name} must be greater than 0, and finite")
    largest = LARGEST_BY_NAME.get(QuotaName(name))
    smallest = SMALLEST if largest is None else 1
    if value < smallest:
        raise InvalidRequest(f"Proposed value for {name} is too small; {smallest:g} is the smallest.")
    if largest is None:
        return
    if value > largest:
        raise InvalidRequest(f"Proposed value for {name} is too large; {largest} is the largest.")
    if abs(value % 1.0) > 1e-6:
        raise InvalidRequest(f"{name} cannot be a fractional value.")


def _check_number(
    known: Mapping[QuotaEntity, Mapping[str, float]], written: Mapping[QuotaEntity, Mapping[str, float]]
) -> None:
    added = sum(1 for entity, quotas in written.items() if quotas and entity not in known)
    removed = sum(1 for quotas in written.values() if not quotas)
    if added and len(known) + added - removed > QUOTA_ENTITIES_MAX:
        raise PolicyViolation(
            f"{len(known)} entities have quotas, and with {added} more there would be more than "
            f"{QUOTA_ENTITIES_MAX}; use defaults"
        )


def _shown(parts: EntityParts) -> str:
    return ", ".join(f"{kind} {'<default>' if name is None else repr(name)}" for kind, name in parts)
