"""The group coordinator process: `ottla-group-coordinator --config FILE [--set key=value …]`.

It listens, registers itself under its address, and waits for the controller to assign shards to it and for brokers to
open their streams. Any number may run; each serves the shards that are its own.

A stop answers nothing new, stores what is on its way, and leaves the cluster at once, so that the controller assigns
the shards to others without waiting for a lease to run out.

It runs on asyncio's own event loop: all its traffic is gRPC's, which does its own input and output, so uvloop makes
no difference to what a heartbeat or a commit costs (measured).
"""

import asyncio
from contextlib import AsyncExitStack
from uuid import uuid4

import structlog

import ottla_group_coordinator
from ottla_core.background import start_recurring
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.features import SUPPORTED
from ottla_core.cluster.state.model import NO_EPOCH, Member, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.config import load_config
from ottla_core.lifecycle import run_service, wait_for_end
from ottla_core.observe.logs import configure_logs
from ottla_core.readiness import announce_ready
from ottla_core.rpc.server import RpcServer
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.coordinator import GroupCoordinator
from ottla_group_coordinator.coordinator_metrics import serve_metrics
from ottla_proto.gen.ottla.group_relay_pb2_grpc import add_GroupRelayServicer_to_server

PROGRAM = "ottla-group-coordinator"

log = structlog.get_logger("group coordinator")


def main() -> int:
    """Run a group coordinator until SIGTERM; returns the exit code."""

    async def serve(stop: asyncio.Event) -> None:
        config = load_config(GroupCoordinatorConfig, program=PROGRAM)
        configure_logs(f"group-coordinator-{config.node_id}", level=config.log_level)
        await run_group_coordinator(config, stop)

    return run_service(PROGRAM, serve)


async def run_group_coordinator(config: GroupCoordinatorConfig, stop: asyncio.Event) -> None:
    """Run a group coordinator until `stop` is set.

    Raises:
        PortInUse: the listener's address is taken.
        MemberIdInUse: another coordinator has this id, at start or after this one was cut off.
        EtcdError: etcd cannot be reached at start.
        ClusterReplaced: etcd was emptied or restored, or holds another cluster, since this coordinator has started.
    """
    async with AsyncExitStack() as closing:
        etcd = EtcdClient.from_settings(config)
        closing.push_async_callback(etcd.close)
        await ensure_cluster_id(etcd, config.cluster_name)
        feed = ClusterStateFeed(etcd, config.cluster_name, age_max_ms=config.view_age_max_ms)
        await feed.start()
        closing.push_async_callback(feed.close)

        server = RpcServer()
        rpc_address = config.rpc_address(server.bind(*config.rpc_listener))
        coordinator: GroupCoordinator

        def on_place_changed() -> None:
            coordinator.on_place_changed()

        membership = Membership(
            etcd,
            config.cluster_name,
            _member(config, rpc_address),
            lease_ttl_ms=config.member_lease_ttl_ms,
            on_change=on_place_changed,
            view_is_fresh=feed.is_fresh,
        )
        coordinator = GroupCoordinator(
            config=config,
            feed=feed,
            place=membership,
            # Under the next registration the controller assigns every shard with a fresh producer epoch.
            register_anew=lambda floor: membership.register_anew(producer_epoch_floor=floor),
        )
        add_GroupRelayServicer_to_server(coordinator.service, server.server)
        await server.start()
        closing.push_async_callback(server.stop)
        closing.push_async_callback(coordinator.close_streams)
        await membership.start()
        closing.push_async_callback(membership.close)
        closing.push_async_callback(coordinator.close_shards)
        if config.shows_metrics:
            lag = coordinator.lag_watch()
            closing.callback(start_recurring("group lag", lag.run).cancel)
            metrics = serve_metrics(
                config,
                coordinator.shards,
                coordinator.service,
                coordinator.counts,
                rebalances=coordinator.rebalances,
                lag=lag,
            )
            closing.callback(metrics.close)
        await server.set_serving(serving=True)
        log.info("ready", id=config.node_id, rpc_address=rpc_address)
        announce_ready()
        await wait_for_end(stop, feed.wait_failed(), membership.wait_failed())
        await server.set_serving(serving=False)


def _member(config: GroupCoordinatorConfig, rpc_address: str) -> Member:
    return Member(
        role=Role.GROUP_COORDINATOR,
        id=config.node_id,
        epoch=NO_EPOCH,
        incarnation=uuid4(),
        rpc_address=rpc_address,
        version=ottla_group_coordinator.__version__,
        features=SUPPORTED,
    )
