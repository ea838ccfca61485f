"""A broker made of chosen parts, for tests of handlers through the dispatcher; the other parts are missing."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla_broker.authorization import Authorization
from ottla_broker.broker import Broker
from ottla_broker.config import BrokerConfig
from ottla_broker.dispatch import Dispatcher
from ottla_broker.outcome import Delayed
from ottla_broker.quotas.charge import Charge
from ottla_broker.quotas.client_quotas import ClientQuotas, Meters
from ottla_broker.quotas.sampled_rate import RateWindow
from ottla_broker.refused_batches import RefusedBatches
from ottla_broker.request_times import MeasuredRequest
from ottla_core.clock import SystemClock
from ottla_core.cluster.state.model import Member
from ottla_core.principal import ANONYMOUS, Principal
from tests.support.clients.raw_client import decode_response, encode_request, response_type_of
from tests.support.groups.group_cluster import BROKER, LISTENER, broker_member


@dataclass(frozen=True)
class Registered:
    """Stands for the broker's membership."""

    member: Member


@dataclass
class Client:
    """Stands for a client's connection."""

    address: str = "10.0.0.7"
    client_software: tuple[str | None, str | None] = (None, None)
    listener_name: str = LISTENER
    principal: Principal = ANONYMOUS
    delayed: frozenset[Delayed] = frozenset()
    measured: MeasuredRequest | None = None
    charge: Charge | None = None
    meters: Meters | None = None
    throttle_ms: int = 0
    topic_rights: object | None = None

    def throttle(self, throttle_ms: int) -> None:
        self.throttle_ms = max(self.throttle_ms, throttle_ms)


def broker_of(feed: Any, *, settings: dict[str, str] | None = None, **parts: Any) -> Broker:
    """A broker with these parts; touching another is an error."""
    config = BrokerConfig.model_validate({"node.id": BROKER, "log.dirs": (Path("/nowhere"),), **(settings or {})})
    missing = dict.fromkeys(
        (
            "controller",
            "logins",
            "store",
            "cluster_copies",
            "partitions",
            "reconciler",
            "isr_updates",
            "fetchers",
            "links",
            "link_keepers",
            "link_statuses",
            "fetch_sessions",
            "producer_ids",
            "groups",
            "group_topic",
            "transaction_topic",
            "transaction_coordinators",
            "telemetry",
            "traffic",
        )
    )
    registered = Registered(broker_member(BROKER))
    own = {
        "clock": SystemClock(),
        "membership": registered,
        "refused_batches": RefusedBatches(),
        "authorization": Authorization(),
        "quotas": ClientQuotas(RateWindow(11, 1000), RateWindow(11, 1000), SystemClock()),
    }
    return Broker(config=config, feed=feed, **{**missing, **own, **parts})


async def ask(broker: Broker, request: Any, *, client_id: str | None = "client", client: Client | None = None) -> Any:
    """Have a request handled as if a client had sent it, and return the response that the client reads."""
    outcome = await ask_frame(broker, encode_request(request, 42, client_id=client_id), client)
    correlation_id, response = decode_response(outcome, response_type_of(request))
    assert correlation_id == 42
    return response


async def ask_frame(broker: Broker, frame: bytes, client: Client | None = None) -> bytes:
    """Have a frame handled, and return the answer without its length.

    Raises:
        InvalidRequest: the connection is to be closed.
    """
    outcome = Dispatcher(broker).handle(memoryview(frame).toreadonly(), client or Client())  # type: ignore[arg-type]
    parts: Any = outcome
    while parts is not None and not isinstance(parts, list):
        parts = await parts  # a request that rests gives what is left to be awaited for its answer
    assert parts is not None
    answer = b"".join(part for part in parts if isinstance(part, bytes))
    (length,) = struct.unpack_from(">i", answer)
    assert length == len(answer) - 4
    return answer[4:]
