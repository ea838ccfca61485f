"""A broker's place in the cluster: its log directories are taken, its logs recovered, and it registers with them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from ottla_broker.authorization import Authorization
from ottla_broker.config import BrokerConfig
from ottla_broker.dynamic_config import as_started
from ottla_broker.effective_topic_config import effective_topic_config
from ottla_broker.log.directories.cluster_copies import ClusterCopies
from ottla_broker.log.directories.log_directories import LogDirectories, take_directories
from ottla_broker.log.store.log_store import LogStore
from ottla_broker.log_settings import log_settings
from ottla_core.background import start_recurring
from ottla_core.clock import SystemClock
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.membership.recovery_check import read_finished_recovery
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import ClusterState, Endpoint, Member, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.cluster_process import open_etcd, own_member
from ottla_core.throttle_config import LOG_DIRECTORY_MOVE_RATE, throttle_rate

if TYPE_CHECKING:
    from ottla_core.observe.tracing import Tracing
    from ottla_core.rpc.tls import RpcTls

REGISTRATION_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """This broker's place in the cluster, with the logs it has brought along."""

    feed: ClusterStateFeed
    store: LogStore
    copies: ClusterCopies
    membership: Membership
    controller: ControllerClient
    changed: asyncio.Event
    """Set when the registration has changed."""
    authorization: Authorization


async def join_cluster(
    config: BrokerConfig,
    ports: Mapping[str, int],
    rpc_port: int,
    closing: AsyncExitStack,
    *,
    tracing: "Tracing | None",
    tls: "RpcTls | None",
    begin_rights: Callable[[ClusterStateFeed], Awaitable[Authorization]],
) -> Place:
    """Read the cluster's state, begin to judge by it, open and recover the logs, and register.

    The authorizer comes before the registration: one that is slow, or cannot start, is to hold up no partitions.
    """
    etcd = open_etcd(config, closing)
    directories, copies = await _take_directories(config, etcd, closing)
    feed = ClusterStateFeed(
        etcd,
        config.cluster_name,
        age_max_ms=config.view_age_max_ms,
        copier=copies,
        own_key=KeySpace(config.cluster_name).member(Role.BROKER, config.node_id),
        cluster_id=copies.cluster_id,  # etcd may have been given another cluster's state since they were taken
    )
    await feed.start()
    closing.push_async_callback(feed.close)
    authorization = await begin_rights(feed)
    store = await LogStore.load(
        directories,
        config_for=lambda name: effective_topic_config(feed.state.topics.get(name), feed.state, config),
        clock=SystemClock(),
        settings=log_settings(as_started(config, feed.state.broker_configs)),
        move_rate=lambda: throttle_rate(LOG_DIRECTORY_MOVE_RATE, config.node_id, feed.state.broker_configs),
    )
    closing.push_async_callback(store.close)
    copies.on_refusal = lambda path, error: store.storage_problems.note(
        path, "copy", error, f"the copy of the cluster's state in {path} is not written: {error.strerror or error}"
    )
    changed = asyncio.Event()
    membership = Membership(
        etcd,
        config.cluster_name,
        _describe_self(config, ports, rpc_port, store),
        lease_ttl_ms=config.member_lease_ttl_ms,
        on_change=changed.set,
        resume=True,
        view_is_fresh=feed.is_fresh,
    )
    await membership.start()
    await store.directories.registered(membership.registered_epoch)
    closing.push_async_callback(membership.close)
    await feed.wait_for(lambda state: shows_registration(state, membership), REGISTRATION_TIMEOUT_SECONDS)
    controller = ControllerClient(feed, tracing=tracing, tls=tls)
    closing.push_async_callback(controller.close)
    return Place(feed, store, copies, membership, controller, changed, authorization)


async def _take_directories(
    config: BrokerConfig, etcd: EtcdClient, closing: AsyncExitStack
) -> tuple[LogDirectories, ClusterCopies]:
    """Take over the log directories, before the cluster's state is read that is copied into them."""
    cluster_id = await ensure_cluster_id(etcd, config.cluster_name)
    # Only then: a recovery writes the cluster id with its first marker, or after it. So where the id is a recovered
    # one, and the marker is finished afterwards, the state is whole.
    recovery = await read_finished_recovery(etcd, config.cluster_name)
    directories = await take_directories(
        config.log_dirs, node_id=config.node_id, cluster_id=cluster_id, recovery=recovery.number
    )
    closing.callback(directories.release)
    prefix = KeySpace(config.cluster_name).prefix
    copies = ClusterCopies(directories, config.cluster_name, cluster_id, lambda: etcd.pages(prefix))
    closing.callback(copies.close)
    keeping = start_recurring("copies of the cluster's state", copies.keep)
    closing.callback(keeping.cancel)
    return directories, copies


def shows_registration(state: ClusterState, membership: Membership) -> bool:
    """Return whether a state is of after this broker's present registration.

    In one from before, a leader may still take it into the in-sync set by the logs that its predecessor had.
    Partitions begin with the first state that they are given, and what changes later is about the logs of now.
    """
    member = state.brokers.get(membership.member.id)
    return member is not None and member.epoch == membership.registered_epoch


def _describe_self(config: BrokerConfig, ports: Mapping[str, int], rpc_port: int, store: LogStore) -> Member:
    advertised = {name: (host, port) for name, host, port in config.advertised_listeners}
    protocols = dict(config.listener_security_protocol_map)
    endpoints = []
    for name, listen_host, _ in config.listeners:
        host, port = advertised.get(name, (listen_host, 0))
        security = protocols[name]
        endpoints.append(Endpoint(listener=name, host=host, port=port or ports[name], security_protocol=security))
    return replace(
        own_member(config, Role.BROKER, config.rpc_address(rpc_port), version("ottla-broker")),
        rack=config.broker_rack,
        endpoints=tuple(endpoints),
        directory_ids=tuple(store.directories.ids.values()),
        highest_producer_id=store.highest_producer_id,
        intact_since=store.directories.intact_since,
    )
