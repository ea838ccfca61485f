"""What request handlers work with: the parts of this broker, and the request at hand."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.static.primitive import i32Timedelta
from kio.static.protocol import Entity

from ottla_broker.audit.audit_log import AuditLog
from ottla_broker.authorization import Authorization
from ottla_broker.config import BrokerConfig
from ottla_broker.connection import Connection
from ottla_broker.fetch_sessions import FetchSessionCache
from ottla_broker.groups.coordinator_topics import CoordinatorTopicCreation
from ottla_broker.groups.relay import GroupRelay
from ottla_broker.links.link_fetchers import LinkFetchers
from ottla_broker.links.link_keeper_pool import LinkKeeperPool
from ottla_broker.links.link_statuses import LinkStatuses
from ottla_broker.log.directories.cluster_copies import ClusterCopies
from ottla_broker.log.store.log_store import LogStore
from ottla_broker.outcome import Parts
from ottla_broker.partition_table import PartitionTable
from ottla_broker.producer_ids import ProducerIds
from ottla_broker.quotas.client_quotas import ClientQuotas
from ottla_broker.reconciliation import Reconciler
from ottla_broker.refused_batches import RefusedBatches
from ottla_broker.replication.fetcher_pool import FetcherPool
from ottla_broker.replication.isr_updates import IsrUpdates
from ottla_broker.sasl.logins import Logins
from ottla_broker.telemetry.client_telemetry import ClientTelemetry
from ottla_broker.topic_traffic import TrafficByTopic
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests
from ottla_core.clock import Clock
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import ClusterState, Endpoint, Member
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.observe.request_errors import count_errors
from ottla_core.principal import Principal
from ottla_core.wire.leader_hint import CurrentLeader, NodeEndpoint
from ottla_core.wire.messages import MessageCodec, RequestHeader
from ottla_core.wire.response_errors import errors_in


@dataclass(slots=True)  # frozen ones cost a microsecond more to make, and one is made per request
class Request:
    """A decoded request.

    Attributes:
        message: kio's dataclass of the version that was sent, or what a reader of our own returns.
        frame: the request as it was sent, without its length; empty unless the API's entry in `dispatch.APIS` asks
            for it.
    """

    header: RequestHeader
    message: Any
    codec: MessageCodec
    connection: Connection
    frame: bytes = b""

    @property
    def principal(self) -> Principal:
        """Who makes the request."""
        return self.connection.principal

    @property
    def listener(self) -> str:
        """The name of the listener through which it came."""
        return self.connection.listener_name

    @property
    def version(self) -> int:
        """The API version of the request and its response."""
        return self.header.api_version

    @property
    def elapsed_s(self) -> float:
        """For how long it is being handled, which is long only for requests that are handled in parts."""
        return 0.0

    def newest(self) -> Any:
        """Return the message in the newest version's class, which handlers are written against."""
        return self.codec.upgrade_request(self.message)

    def respond(self, response: Entity) -> Parts:
        """Encode a response, given in any version's class."""
        count_errors(self.header.api_key, errors_in(response))
        throttle_ms = self.throttle_ms()
        if throttle_ms and hasattr(response, "throttle_time"):
            told = i32Timedelta.parse(timedelta(milliseconds=throttle_ms))
            response = replace(response, throttle_time=told)
        return [self.codec.encode_response(self.header.correlation_id, response)]

    def throttle_ms(self) -> int:
        """Return for how many milliseconds the client is throttled, for its response to say."""
        connection = self.connection
        charge = connection.charge
        if charge is not None and charge.header is self.header:
            charge.settle()
        return connection.throttle_ms

    def response_header(self) -> bytes:
        """Return the encoded response header, for the responses that are encoded by hand."""
        return self.codec.response_header(self.header.correlation_id)


@dataclass(frozen=True, slots=True)
class Broker:
    """The parts of a running broker."""

    config: BrokerConfig
    clock: Clock
    authorization: Authorization
    logins: Logins
    quotas: ClientQuotas
    feed: ClusterStateFeed
    membership: Membership
    controller: ControllerClient
    store: LogStore
    cluster_copies: ClusterCopies
    partitions: PartitionTable
    reconciler: Reconciler
    isr_updates: IsrUpdates
    fetchers: FetcherPool
    links: LinkFetchers
    link_keepers: LinkKeeperPool
    link_statuses: LinkStatuses
    fetch_sessions: FetchSessionCache
    refused_batches: RefusedBatches
    producer_ids: ProducerIds
    groups: GroupRelay
    group_topic: CoordinatorTopicCreation
    transaction_topic: CoordinatorTopicCreation
    transaction_coordinators: CoordinatorRequests
    telemetry: ClientTelemetry
    traffic: TrafficByTopic
    audit: AuditLog | None = None

    @property
    def id(self) -> int:
        """This broker's id."""
        return self.config.node_id

    @property
    def state(self) -> ClusterState:
        """The newest cluster state."""
        return self.feed.state

    def endpoint(self, member: Member, listener: str) -> Endpoint | None:
        """Return where a client that came through `listener` reaches a broker."""
        return next((endpoint for endpoint in member.endpoints if endpoint.listener == listener), None)

    def live_brokers(self, listener: str) -> list[tuple[Member, Endpoint]]:
        """Return the live brokers that a client that came through `listener` can reach, and where.

        After an outage of etcd every registration may have lapsed. This broker then names itself: librdkafka forgets
        all brokers that an answer leaves out, and never asks again after an answer without any (its issue 5301).
        """
        members = [*self.state.brokers.values()]
        found = [(member, endpoint) for member in members if (endpoint := self.endpoint(member, listener))]
        if found:
            return found
        itself = self.membership.member
        endpoint = self.endpoint(itself, listener)
        return [(itself, endpoint)] if endpoint else []

    def reachable_brokers(self, listener: str) -> list[int]:
        """Return the ids of the live brokers that a client that came through `listener` can reach.

        Those that are about to stop are left out, unless there are no others.
        """
        found = [member for member, _ in self.live_brokers(listener)]
        return [member.id for member in found if not member.shutting_down] or [member.id for member in found]

    def current_leader(self, named: str | UUID, index: int) -> CurrentLeader | None:
        """Return who leads a partition, as far as this broker knows; the topic is named by its name or id."""
        state = self.state
        known = state.topics_by_id.get(named) if isinstance(named, UUID) else state.topics.get(named)
        if known is None or not 0 <= index < len(known.partitions):
            return None
        partition = known.partitions[index]
        return CurrentLeader(partition.leader, partition.leader_epoch)

    def node_endpoints(self, leaders: Iterable[int], listener: str) -> list[NodeEndpoint]:
        """Return the addresses of the live brokers among `leaders`."""
        found: list[NodeEndpoint] = []
        for broker_id in leaders:
            member = self.state.brokers.get(broker_id)
            endpoint = self.endpoint(member, listener) if member else None
            if member and endpoint:
                found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port, member.rack))
        return found
