"""The broker as a whole: opens its parts in order, and closes them in the opposite order.

Start: bind the ports (a port in use must be known before anything else happens), read the cluster state, open and
recover the logs, register, lead and follow as the controller assigns, connect to the group coordinators, listen.
Stop: hand over what others can lead, close the connections, leave the coordinators and the cluster, flush and close
the logs.
"""

import asyncio
import socket
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from secrets import randbelow
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog

from ottla_broker.authorization import Authorization
from ottla_broker.broker import Broker
from ottla_broker.client_control import (
    authorization_by,
    begin_audit_log,
    begin_telemetry,
    find_client_plugins,
    keep_connection_rates,
    principals_by,
    quotas_by,
    tell_of_unreadable_lists,
)
from ottla_broker.client_plugins.principals import Principals
from ottla_broker.config import BrokerConfig
from ottla_broker.controlled_shutdown import hand_over
from ottla_broker.dispatch import Dispatcher
from ottla_broker.dynamic_config import as_started, keep_applied
from ottla_broker.fetch_sessions import FETCH_SESSION_ID_MAX, FetchSessionCache
from ottla_broker.file_shares import share_files
from ottla_broker.groups.coordinator_topics import GROUPS, TRANSACTIONS, CoordinatorTopic, CoordinatorTopicCreation
from ottla_broker.groups.marker_writing import MarkerWriting
from ottla_broker.groups.relay import GroupRelay
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_broker.groups.topic_rights import TopicRights
from ottla_broker.joining import Place, join_cluster
from ottla_broker.links.epoch_raising import EpochRaising
from ottla_broker.links.group_rewind import GroupRewind
from ottla_broker.links.keeper_assembly import start_keepers
from ottla_broker.links.link_fetchers import LinkFetchers
from ottla_broker.links.link_settings import resolver
from ottla_broker.links.local_group_offsets import LocalGroupOffsets
from ottla_broker.listener import Listener, bind
from ottla_broker.listener_security import certificates_of, peer_access
from ottla_broker.log_settings import cleaner_settings
from ottla_broker.metrics.serving import serve_metrics
from ottla_broker.partition_context import ReplicationContext
from ottla_broker.partition_table import PartitionTable
from ottla_broker.producer_ids import ProducerIds
from ottla_broker.reconciliation import Reconciler
from ottla_broker.refused_batches import RefusedBatches
from ottla_broker.replication.fetch_connection import open_by
from ottla_broker.replication.fetcher_pool import FetcherPool, fetch_settings
from ottla_broker.replication.isr_updates import IsrUpdates
from ottla_broker.replication.longest_log_searches import LongestLogSearches
from ottla_broker.replication.throttle import ReplicationThrottles
from ottla_broker.sasl.logins import Logins
from ottla_broker.tls.connecting import PeerAccess
from ottla_broker.topic_traffic import TrafficByTopic
from ottla_broker.transactions.coordinator_requests import CoordinatorRequests
from ottla_core import health_names
from ottla_core.background import start_detached, start_recurring
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import NO_LEADER, ClusterState, Role
from ottla_core.cluster.state.security import QuotaName
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.cluster_process import begin_rpc_tls, serve_until_end
from ottla_core.errors import RequestTimedOut
from ottla_core.lifecycle import open_files_limit
from ottla_core.observe.traces import TracedProcess, begin_traces
from ottla_core.rpc.server import RpcServer

if TYPE_CHECKING:
    from ottla_broker.tls.listener_tls import Certificates
    from ottla_core.observe.tracing import Tracing
    from ottla_core.rpc.tls import RpcTls
    from ottla_sdk.broker import Authorizer

ELECTIONS_TIMEOUT_SECONDS = 5.0

logger = structlog.get_logger("broker")


async def run_broker(config: BrokerConfig, stop: asyncio.Event) -> None:
    """Run a broker until `stop` is set or it loses its place in the cluster.

    Raises:
        OttlaError: it could not start, another process has taken its id, or its cluster is not what it was.
        OSError: a log directory cannot be used.
    """
    async with AsyncExitStack() as closing:
        certificates = certificates_of(config)
        plugins = await asyncio.to_thread(find_client_plugins, config)
        sockets = [(name, bind(host, port)) for name, host, port in config.listeners]
        for _, sock in sockets:
            closing.callback(sock.close)
        tracing = begin_traces(config, _traced_process(config))
        if tracing is not None:
            closing.push_async_callback(tracing.close)
        tls = begin_rpc_tls(config, Role.BROKER, closing)
        rpc_server = RpcServer(tracing, tls=tls)
        rpc_port = rpc_server.bind(*config.rpc_listener)
        await rpc_server.start()
        closing.push_async_callback(rpc_server.stop)

        ports = {name: sock.getsockname()[1] for name, sock in sockets}
        peers = peer_access(config, certificates)
        broker = await _open_broker(
            config, ports, rpc_port, closing, tracing=tracing, peers=peers, tls=tls, authorizer=plugins.authorizer
        )

        _keep_health(broker, rpc_server)
        dispatcher = Dispatcher(broker)
        closing.callback(dispatcher.close)
        principals = principals_by(plugins, closing)
        listener = _listener(config, sockets, dispatcher, broker, certificates=certificates, principals=principals)

        def apply(changed: BrokerConfig) -> None:
            listener.reconfigure(changed)
            broker.store.cleaner.reconfigure(cleaner_settings(changed))

        keep_applied(config, broker.feed, apply)
        keep_connection_rates(listener.rates, broker.feed)
        if config.shows_metrics:
            closing.callback(serve_metrics(broker, listener, dispatcher, tracing).close)
        listener.start()
        closing.push_async_callback(listener.close)
        if certificates is not None:
            closing.callback(start_recurring("certificates", certificates.keep).cancel)
        await serve_until_end(
            rpc_server,
            stop,
            broker.feed,
            broker.membership,
            logger,
            id=broker.id,
            listeners=ports,
            rpc_port=rpc_port,
            partitions=len(broker.partitions),
        )
        if config.controlled_shutdown_enable:
            await hand_over(broker.id, broker.membership, broker.feed, broker.reconciler)


def _listener(
    config: BrokerConfig,
    sockets: list[tuple[str, socket.socket]],
    dispatcher: Dispatcher,
    broker: Broker,
    *,
    certificates: "Certificates | None",
    principals: Principals,
) -> Listener:
    return Listener(
        config,
        sockets,
        dispatcher,
        files_for_connections=share_files(open_files_limit()).connections,
        certificates=certificates,
        principals=principals,
        sasl=broker.logins.of_listeners(config.sasl_of_listeners(), config.connection_failed_authentication_delay_ms),
        throttled=broker.quotas.throttled[QuotaName.CONNECTION_CREATION_RATE],
    )


def _keep_health(broker: Broker, rpc_server: RpcServer) -> None:
    """Have the health service tell of logs that have failed, of what disks refuse, and of rights that are unclear."""

    def note_failed_log() -> None:
        start_detached("health", rpc_server.set_healthy(health_names.LOGS, healthy=False))

    problems = broker.store.storage_problems

    def note_storage_problems() -> None:
        healthy = not problems.is_present
        start_detached("health", rpc_server.set_healthy(health_names.STORAGE, healthy=healthy))

    def note_access_lists(*, healthy: bool) -> None:
        start_detached("health", rpc_server.set_healthy(health_names.ACCESS_LISTS, healthy=healthy))

    tell_of_unreadable_lists(broker.feed, note_access_lists)
    broker.isr_updates.when_a_log_has_failed(note_failed_log)
    problems.on_change = note_storage_problems


@dataclass(frozen=True, slots=True)
class _Replication:
    """What makes the partitions lead and follow."""

    partitions: PartitionTable
    reconciler: Reconciler
    isr_updates: IsrUpdates
    fetchers: FetcherPool
    links: LinkFetchers
    traffic: TrafficByTopic


def _traced_process(config: BrokerConfig) -> TracedProcess:
    return TracedProcess("ottla-broker", str(config.node_id), config.cluster_name, version("ottla-broker"))


async def _open_broker(
    config: BrokerConfig,
    ports: Mapping[str, int],
    rpc_port: int,
    closing: AsyncExitStack,
    *,
    tracing: "Tracing | None",
    peers: PeerAccess,
    tls: "RpcTls | None",
    authorizer: "Authorizer[Any] | None",
) -> Broker:
    """Join the cluster with the logs of this broker, and lead what the controller assigns."""
    clock = SystemClock()
    audit = begin_audit_log(config, clock, closing)

    def begin_rights(feed: ClusterStateFeed) -> Awaitable[Authorization]:
        return authorization_by(authorizer, config, feed, audit, closing)

    place = await join_cluster(config, ports, rpc_port, closing, tracing=tracing, tls=tls, begin_rights=begin_rights)
    feed, controller = place.feed, place.controller
    replication = await _start_replication(config, place, clock, closing, peers)
    groups = _start_groups(config, place, replication, clock, closing, tls=tls)
    group_topic = _topic_creation(GROUPS, config, place, clock, closing)
    own_groups = LocalGroupOffsets(groups, group_topic, lambda: feed.state, f"broker-{config.node_id}-links")
    replication.links.groups = GroupRewind(own_groups.set_all_back)
    statuses, keepers = start_keepers(
        config,
        feed=feed,
        membership=place.membership,
        controller=controller,
        links=replication.links,
        groups=own_groups,
        clock=clock,
        peers=peers,
    )
    closing.push_async_callback(keepers.close)
    telemetry = begin_telemetry(config, feed, clock, closing)
    return Broker(
        config=config,
        clock=clock,
        authorization=place.authorization,
        logins=Logins(lambda: feed.state.security, config.delegation_token_secret_key or "", clock),
        quotas=quotas_by(config, feed, clock),
        feed=feed,
        membership=place.membership,
        controller=controller,
        store=place.store,
        cluster_copies=place.copies,
        partitions=replication.partitions,
        reconciler=replication.reconciler,
        isr_updates=replication.isr_updates,
        fetchers=replication.fetchers,
        links=replication.links,
        link_keepers=keepers,
        link_statuses=statuses,
        fetch_sessions=_fetch_sessions(config),
        refused_batches=RefusedBatches(),
        producer_ids=ProducerIds(
            controller, place.membership, config.node_id, lambda: feed.state.highest_producer_id
        ),
        groups=groups,
        group_topic=group_topic,
        transaction_coordinators=CoordinatorRequests(
            groups, lambda: feed.state, f"broker-{config.node_id}-transactions", config.request_timeout_ms / 1000
        ),
        transaction_topic=_topic_creation(TRANSACTIONS, config, place, clock, closing),
        telemetry=telemetry,
        traffic=replication.traffic,
        audit=audit,
    )


def _fetch_sessions(config: BrokerConfig) -> FetchSessionCache:
    return FetchSessionCache(
        config.max_incremental_fetch_session_cache_slots, lambda: 1 + randbelow(FETCH_SESSION_ID_MAX)
    )


async def _start_replication(
    config: BrokerConfig, place: Place, clock: Clock, closing: AsyncExitStack, peers: PeerAccess
) -> _Replication:
    """Lead and follow as the cluster's state says, as soon as the controller has seen this registration."""
    feed, membership = place.feed, place.membership
    partitions = PartitionTable(config, feed, membership)
    context = ReplicationContext(
        broker_id=config.node_id,
        lag_max_ms=config.replica_lag_time_max_ms,
        monotonic_ms=lambda: int(clock.monotonic() * 1000),
        time_ms=clock.time_ms,
    )
    throttles = ReplicationThrottles()
    fetchers = FetcherPool(
        as_started(config, feed.state.broker_configs),
        broker_epoch=lambda: membership.registered_epoch,
        clock=clock,
        throttles=throttles,
        open_connection=open_by(peers.connect),
    )
    closing.push_async_callback(fetchers.close)
    links = _start_links(config, place, context, clock)
    closing.push_async_callback(links.close)
    reconciler = Reconciler(
        config=config,
        store=place.store,
        feed=feed,
        membership=membership,
        partitions=partitions,
        context=context,
        fetchers=fetchers,
        changed=place.changed,
    )
    isr_updates = IsrUpdates(
        context=context,
        partitions=partitions,
        feed=feed,
        membership=membership,
        controller=place.controller,
        reconciler=reconciler,
    )
    isr_updates.start()
    closing.push_async_callback(isr_updates.close)
    searches = LongestLogSearches(
        context=context,
        partitions=partitions,
        feed=feed,
        membership=membership,
        controller=place.controller,
        reconciler=reconciler,
    )
    searches.start()
    closing.push_async_callback(searches.close)
    _keep_throttles(throttles, feed, config.node_id)
    await reconciler.start()
    closing.push_async_callback(reconciler.close)
    await _wait_for_elections(feed, membership, reconciler, config.node_id)
    return _Replication(partitions, reconciler, isr_updates, fetchers, links, context.traffic)


def _start_groups(
    config: BrokerConfig,
    place: Place,
    replication: _Replication,
    clock: Clock,
    closing: AsyncExitStack,
    *,
    tls: "RpcTls | None",
) -> GroupRelay:
    """Connect to the group coordinators, and serve them their shards' partitions."""
    feed = place.feed
    groups = GroupRelay(
        feed,
        config.node_id,
        ShardLogAccess(replication.partitions, lambda: feed.state, clock),
        tls=tls,
        topic_rights=TopicRights(place.authorization.may_describe),
        markers=MarkerWriting(replication.partitions, clock, f"broker-{config.node_id}-markers"),
    )
    groups.start()
    closing.push_async_callback(groups.close)
    return groups


def _topic_creation(
    topic: CoordinatorTopic, config: BrokerConfig, place: Place, clock: Clock, closing: AsyncExitStack
) -> CoordinatorTopicCreation:
    creation = CoordinatorTopicCreation(topic, config, place.controller, place.feed, clock)
    closing.push_async_callback(creation.close)
    return creation


def _start_links(config: BrokerConfig, place: Place, context: ReplicationContext, clock: Clock) -> LinkFetchers:
    """Have what this broker leads of linked topics fetched from their sources."""
    feed = place.feed
    started = as_started(config, feed.state.broker_configs)
    links = LinkFetchers(
        config,
        fetch_settings(started),
        state=lambda: feed.state,
        clock=clock,
        epochs=EpochRaising(place.controller, config.node_id, place.membership),
        resolve=resolver(config.config_providers),
    )

    def name_of_link(link_id: UUID) -> str:
        link = feed.state.link_of(link_id)
        return str(link_id) if link is None else link.name

    context.on_link = links.on_link
    context.name_of_link = name_of_link
    feed.subscribe(links.links_changed)
    return links


def _keep_throttles(throttles: ReplicationThrottles, feed: ClusterStateFeed, broker_id: int) -> None:
    """Have the rates of replication follow the brokers' settings."""

    def update(former: ClusterState, new: ClusterState) -> None:
        if former.broker_configs is not new.broker_configs:
            throttles.update(broker_id, new.broker_configs)

    throttles.update(broker_id, feed.state.broker_configs)
    feed.subscribe(update)


async def _wait_for_elections(
    feed: ClusterStateFeed, membership: Membership, reconciler: Reconciler, broker_id: int
) -> None:
    """Wait until the controller has seen this broker's registration, so that a broker that is ready also leads."""

    def elected(state: ClusterState) -> bool:
        return not any(
            (partition.leader == broker_id and partition.leader_broker_epoch != membership.epoch)
            or (partition.leader == NO_LEADER and partition.replicas == (broker_id,))
            for topic in state.topics.values()
            for partition in topic.partitions
        )

    try:
        state = await feed.wait_for(elected, ELECTIONS_TIMEOUT_SECONDS)
    except RequestTimedOut:
        logger.warning("no controller has elected this broker for its partitions yet; going on without")
    else:
        await reconciler.wait_reached(state.revision, ELECTIONS_TIMEOUT_SECONDS)
