"""The metrics of clients in a running broker: what each is asked for, what is taken, and where that goes.

What decides is pure (`client_instances.py`, `client_metric_values.py`). A push that is to be taken is unpacked in a
thread; how much waits for that is bounded, and a push that finds no room is refused as if it came too early. The
values of the last pushes are kept for this broker's own metrics, and the pushes go on by OTLP.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog
from kio.schema.errors import ErrorCode

from ottla_broker.telemetry.client_instances import ClientInstance, ClientInstances, Push
from ottla_broker.telemetry.client_metric_values import ClientMetricValues, PushedValues
from ottla_broker.telemetry.forwarding import DROPPED, SENT, UNDELIVERED, ClientMetricsForwarding
from ottla_core.background import start_recurring
from ottla_core.client_metrics_config import CLIENT_ID, ClientMetricsSubscription, read_subscription
from ottla_core.clock import Clock
from ottla_core.cluster.state.model import ClusterState
from ottla_core.config import MetricsSettings
from ottla_core.errors import CodedError, KafkaError
from ottla_core.wire.compression import Codec, codec_of

WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of pushes that wait to be unpacked, each with its overhead."""
OVERHEAD_BYTES: Final = 1024
SILENCE_CHECK_INTERVAL_S: Final = 10.0
TAKEN: Final = "taken"
BROKER_ID: Final = "broker_id"

logger = structlog.get_logger("client metrics")


@dataclass(frozen=True, slots=True)
class _Read:
    """A push, read: its values, and what goes on to a receiver of OTLP, if there is one."""

    values: PushedValues
    request: bytes


class ClientTelemetry:
    """The metrics of clients.

    Args:
        broker_id: of this broker.
        settings: say whether pushes go on by OTLP.
        clock: tells who comes too early, and who has gone.
        size_bytes_max: how large a push may be as it is sent.

    Attributes:
        instances: the clients that are known.
        values: those of their last pushes.
        pushes: how many pushes there were, by `TAKEN` or the name of the error that they were answered.
        forwarded: how many went on by OTLP, by outcome.
        size_bytes_max: how large a push may be as it is sent.
    """

    def __init__(self, broker_id: int, settings: MetricsSettings, clock: Clock, *, size_bytes_max: int) -> None:
        self.values = ClientMetricValues()
        self.instances = ClientInstances(size_bytes_max=size_bytes_max, on_forgotten=self.values.forget)
        self.size_bytes_max = size_bytes_max
        self.pushes = Counter({TAKEN: 0})
        self.forwarded = Counter({SENT: 0, UNDELIVERED: 0, DROPPED: 0})
        self._broker_id = broker_id
        self._clock = clock
        self._forwarding = (
            ClientMetricsForwarding(settings, self.forwarded) if settings.metrics_otlp_endpoint is not None else None
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="client metrics")
        self._waiting_bytes = 0
        self._silence_check: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to forget clients that have gone."""
        self._silence_check = start_recurring("client metrics", self._forget_silent)

    def close(self) -> None:
        """End the threads; what they still have to do is done for nobody."""
        if self._silence_check is not None:
            self._silence_check.cancel()
        if self._forwarding is not None:
            self._forwarding.close()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def state_changed(self, former: ClusterState | None, new: ClusterState) -> None:
        """Go by the subscriptions of a new state."""
        if former is not None and former.client_metrics_configs is new.client_metrics_configs:
            return
        subscriptions = [self._read(name, configs) for name, configs in new.client_metrics_configs.items()]
        self.instances.set_subscriptions([each for each in subscriptions if each is not None])

    def ask(self, instance_id: UUID, client: Mapping[str, str]) -> ClientInstance:
        """Return what a client is asked for; errors as with `ClientInstances.ask`."""
        return self.instances.ask(instance_id, client, self._clock.monotonic())

    async def push(self, instance_id: UUID, client: Mapping[str, str], push: Push, packed: bytes) -> None:
        """Take a push.

        Raises:
            KafkaError: it is not taken; see `ClientInstances.push` and `pushed_metrics`.
        """
        try:
            instance = self.instances.push(instance_id, client, push, self._clock.monotonic())
            await self._take(instance, push, packed)
        except KafkaError as error:
            self.pushes[error.code.name.upper()] += 1
            raise
        else:
            self.pushes[TAKEN] += 1
        finally:
            if push.is_last:
                self.values.forget(instance_id)

    async def _take(self, instance: ClientInstance, push: Push, packed: bytes) -> None:
        if not packed:
            return
        needed_bytes = len(packed) + OVERHEAD_BYTES
        if self._waiting_bytes + needed_bytes > WAITING_BYTES_MAX:
            raise CodedError(
                ErrorCode.throttling_quota_exceeded, "Too many metrics of clients wait to be unpacked; push later"
            )
        self._waiting_bytes += needed_bytes
        attributes = {**instance.client, BROKER_ID: str(self._broker_id)} if self._forwarding is not None else None
        try:
            read = await asyncio.get_running_loop().run_in_executor(
                self._thread, _read_push, codec_of(push.codec_id), packed, attributes
            )
        finally:
            self._waiting_bytes -= needed_bytes
        if self._forwarding is not None:
            self._forwarding.offer(read.request)
        if instance.id in self.instances:  # it may have had to make way meanwhile, and nobody would forget its values
            self.values.take(instance.id, instance.client.get(CLIENT_ID, ""), read.values)

    def _read(self, name: str, configs: Mapping[str, str]) -> ClientMetricsSubscription | None:
        try:
            return read_subscription(configs)
        except KafkaError as error:  # it was stored by a release that knows more
            logger.warning("a subscription cannot be read", subscription=name, reason=error.message)
            return None

    async def _forget_silent(self) -> None:
        while True:
            await asyncio.sleep(SILENCE_CHECK_INTERVAL_S)
            self.instances.forget_silent(self._clock.monotonic())


def _read_push(codec: Codec, packed: bytes, attributes: Mapping[str, str] | None) -> _Read:
    """Unpack a push; runs in a thread. With attributes there is somebody to whom it goes on."""
    # Imported here because it takes memory that a broker to which nobody pushes need not spend.
    from ottla_broker.telemetry.pushed_metrics import (  # noqa: PLC0415
        pushed_values,
        unpacked_metrics,
        with_attributes,
    )

    data = unpacked_metrics(codec, packed)
    request = with_attributes(data, attributes) if attributes is not None else b""
    return _Read(pushed_values(data), request)
