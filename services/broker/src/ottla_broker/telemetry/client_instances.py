"""The clients that ask what is wanted of their metrics, and push them: who may do so when. Pure.

A client draws an instance id, or is given one, and names it in each request. For each instance it is known when it
has asked and pushed, so that neither comes more often than its interval allows: a request that comes too early is
refused. A push that follows a question is never too early, as clients wait for between a half and one and a half
intervals before their first. An instance that has been silent for three intervals is forgotten, and beyond
`INSTANCES_MAX` the one that was silent for longest makes way. A client does not notice that it was forgotten: its
next request makes it known again, with the same id of what is wanted.

Source: Kafka's ClientMetricsManager and ClientMetricsInstance (4.2). Other than there, a question is never too early
after a push that was refused for an outdated subscription or its codec, as KIP-714 has clients ask at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from ottla_broker.telemetry.wanted_metrics import WantedMetrics, wanted_metrics
from ottla_core.client_metrics_config import ClientMetricsSubscription
from ottla_core.errors import CodedError, InvalidRequest
from ottla_core.wire.compression import codec_of

INSTANCES_MAX: Final = 16_384
EXPIRY_S_MIN: Final = 60.0
EXPIRY_INTERVALS: Final = 3
RESERVED_IDS: Final = (UUID(int=0), UUID(int=1))
"""No client has these. Source: Kafka's Uuid.RESERVED."""
NEVER: Final = -math.inf


@dataclass(slots=True)
class ClientInstance:
    """A client that is known.

    Attributes:
        id: its instance id.
        client: what it says of itself, by selector.
        wanted: what it is asked for.
        wanted_of: the number of the subscriptions by which that was worked out.
        seen_s: when it was last heard of; all times are monotonic, in seconds.
        asked_s: when it was last told what is wanted.
        pushed_s: when its last push was not too early.
        may_ask_now: whether its last push was refused in a way that makes it ask again.
        has_ended: whether it has made its last push.
    """

    id: UUID
    client: Mapping[str, str]
    wanted: WantedMetrics
    wanted_of: int
    seen_s: float
    asked_s: float = NEVER
    pushed_s: float = NEVER
    may_ask_now: bool = False
    has_ended: bool = False

    @property
    def interval_s(self) -> float:
        """How long it waits between two pushes."""
        return self.wanted.interval_ms / 1000

    @property
    def expires_s(self) -> float:
        """When it will be forgotten if it stays silent."""
        return self.seen_s + max(EXPIRY_S_MIN, EXPIRY_INTERVALS * self.interval_s)


@dataclass(frozen=True, slots=True)
class Push:
    """What a push says beside its metrics.

    Attributes:
        subscription_id: of what the client has been told to push.
        is_last: whether the client ends.
        codec_id: of the metrics.
        size_bytes: of the metrics as they were sent.
    """

    subscription_id: int
    is_last: bool
    codec_id: int
    size_bytes: int


class ClientInstances:
    """The instances that are known to a broker, the one that was silent for longest first.

    Args:
        size_bytes_max: how large a push may be.
        on_forgotten: called for each instance that is not known any more.
        instances_max: how many are known at once.

    Attributes:
        evictions: how many had to make way for others.
    """

    def __init__(
        self,
        *,
        size_bytes_max: int,
        on_forgotten: Callable[[UUID], None],
        instances_max: int = INSTANCES_MAX,
    ) -> None:
        self.evictions = 0
        self._size_bytes_max = size_bytes_max
        self._on_forgotten = on_forgotten
        self._instances_max = instances_max
        self._instances: dict[UUID, ClientInstance] = {}
        self._subscriptions: Sequence[ClientMetricsSubscription] = ()
        self._number = 0

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: UUID) -> bool:
        return instance_id in self._instances

    def set_subscriptions(self, subscriptions: Sequence[ClientMetricsSubscription]) -> None:
        """Take other subscriptions; clients are told of them when they come next."""
        self._subscriptions = subscriptions
        self._number += 1

    def ask(self, instance_id: UUID, client: Mapping[str, str], now_s: float) -> ClientInstance:
        """Return the instance of a client that asks what is wanted of it.

        Raises:
            CodedError: it asks too early (THROTTLING_QUOTA_EXCEEDED).
        """
        instance = self._seen(instance_id, client, now_s)
        is_due = now_s - max(instance.asked_s, instance.pushed_s) >= instance.interval_s
        if not is_due and not instance.may_ask_now:
            raise _too_early(instance)
        instance.asked_s = now_s
        instance.may_ask_now = False
        return instance

    def push(self, instance_id: UUID, client: Mapping[str, str], push: Push, now_s: float) -> ClientInstance:
        """Return the instance of a client that pushes, if what it pushes is to be taken.

        Raises:
            InvalidRequest: the instance id is reserved, or the client has made its last push before.
            UnsupportedCompressionType: there is no such codec.
            CodedError: it comes too early (THROTTLING_QUOTA_EXCEEDED), is not what is wanted now
                (UNKNOWN_SUBSCRIPTION_ID), or is too large (TELEMETRY_TOO_LARGE).
        """
        if instance_id in RESERVED_IDS:
            raise InvalidRequest(f"No client has the instance id {instance_id}")
        instance = self._seen(instance_id, client, now_s)
        try:
            self._check(instance, push, now_s)
        finally:
            instance.has_ended |= push.is_last
        return instance

    def forget_silent(self, now_s: float) -> None:
        """Forget the instances that have been silent for too long."""
        for instance in [each for each in self._instances.values() if each.expires_s <= now_s]:
            self._forget(instance.id)

    def _check(self, instance: ClientInstance, push: Push, now_s: float) -> None:
        if instance.has_ended:
            raise InvalidRequest(f"Client {instance.id} has made its last push before and can push no more")
        follows_question = instance.asked_s > instance.pushed_s
        if follows_question or now_s - instance.pushed_s >= instance.interval_s:
            instance.pushed_s = now_s
        elif not push.is_last:
            raise _too_early(instance)
        if push.subscription_id != instance.wanted.subscription_id:
            instance.may_ask_now = True
            raise CodedError(
                ErrorCode.unknown_subscription_id,
                f"Client {instance.id} pushes for a subscription that is outdated or unknown; it has to ask again",
            )
        instance.may_ask_now = True  # unless the codec is known
        codec_of(push.codec_id)
        instance.may_ask_now = False
        if push.size_bytes > self._size_bytes_max:
            raise CodedError(
                ErrorCode.telemetry_too_large,
                f"Client {instance.id} pushes {push.size_bytes} bytes; telemetry.max.bytes is {self._size_bytes_max}",
            )

    def _seen(self, instance_id: UUID, client: Mapping[str, str], now_s: float) -> ClientInstance:
        """Return an instance, by the present subscriptions, as the one that was heard of last."""
        instance = self._instances.pop(instance_id, None)
        if instance is None or instance.wanted_of != self._number:
            wanted = wanted_metrics(instance_id, client, self._subscriptions)
            has_ended = instance is not None and instance.has_ended
            instance = ClientInstance(instance_id, client, wanted, self._number, now_s, has_ended=has_ended)
        instance.seen_s = now_s
        self._instances[instance_id] = instance
        if len(self._instances) > self._instances_max:
            self.evictions += 1
            self._forget(next(iter(self._instances)))
        return instance

    def _forget(self, instance_id: UUID) -> None:
        del self._instances[instance_id]
        self._on_forgotten(instance_id)


def _too_early(instance: ClientInstance) -> CodedError:
    return CodedError(
        ErrorCode.throttling_quota_exceeded,
        f"Client {instance.id} comes before its interval of {instance.wanted.interval_ms} ms is over",
    )
