"""Which changes of topics a client may have made, by its `controller_mutation_rate` (KIP-599).

Each topic costs as many tokens as partitions come or go with it. A client in debt is refused (newer versions of the
APIs), or has everything done and is throttled (older ones, whose clients do not expect the error). As the last topic
may lead into debt, one with more partitions than the rate allows can be created as well.

Source: Kafka's ControllerMutationQuotaManager.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kio.schema.errors import ErrorCode

from ottla_broker.quotas.client_quotas import Client, ClientQuotas
from ottla_core.errors import KafkaError

T = TypeVar("T")


class ThrottlingQuotaExceeded(KafkaError):
    """The client has had too many partitions made or deleted lately."""

    code = ErrorCode.throttling_quota_exceeded


def admitted(
    quotas: ClientQuotas,
    connection: Client,
    client_id: str | None,
    items: Sequence[T],
    cost: Callable[[T], int],
    *,
    is_strict: bool,
) -> tuple[list[T], list[T]]:
    """Return which items a client may have done and which not, and throttle the client if it is above its quota.

    Args:
        quotas: of clients.
        connection: of the client.
        client_id: with which it asks.
        items: what it asks for.
        cost: returns how many partitions come or go with an item.
        is_strict: whether items are refused.
    """
    meter = quotas.mutation_meter(connection, client_id) if quotas.are_on else None
    if meter is None:
        return [*items], []
    done: list[T] = []
    refused: list[T] = []
    for item in items:
        if is_strict and meter.throttle_ms():
            refused.append(item)
        else:
            meter.record(cost(item))
            done.append(item)
    if refused or not is_strict:
        quotas.throttle_for_mutations(connection, meter)
    return done, refused


REFUSAL = ThrottlingQuotaExceeded(
    "The throttling quota has been exceeded: too many partitions were created or deleted lately "
    "(controller_mutation_rate); ask again after the throttle time"
)
