"""The group coordinator process: `ottla-group-coordinator --config FILE [--set key=value …]`.

It listens, registers itself under its address, and waits for the controller to assign shards to it and for brokers to
open their streams. Any number may run; each serves the shards that are its own.

A stop answers nothing new, stores what is on its way, and leaves the cluster at once, so that the controller assigns
the shards to others without waiting for a lease to run out.

It runs on uvloop. All its traffic is gRPC's, which does its own input and output, but the turns of the loop between
them cost less: of the coordinator's part of a transaction about a sixteenth (measured).
"""

import asyncio
from contextlib import AsyncExitStack

import structlog
import uvloop

import ottla_group_coordinator
from ottla_core.background import start_recurring
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import Role
from ottla_core.cluster_process import begin_rpc_tls, follow_cluster, own_member, run_cluster_process, serve_until_end
from ottla_core.rpc.server import RpcServer
from ottla_group_coordinator.call_rules import CALL_RULES
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.coordinator import GroupCoordinator
from ottla_group_coordinator.coordinator_metrics import serve_metrics
from ottla_proto.gen.ottla.group_relay_pb2_grpc import add_GroupRelayServicer_to_server

PROGRAM = "ottla-group-coordinator"

log = structlog.get_logger("group coordinator")


def main() -> int:
    """Run a group coordinator until SIGTERM; returns the exit code."""
    return run_cluster_process(
        PROGRAM, Role.GROUP_COORDINATOR, GroupCoordinatorConfig, run_group_coordinator, uvloop.new_event_loop
    )


async def run_group_coordinator(config: GroupCoordinatorConfig, stop: asyncio.Event) -> None:
    """Run a group coordinator until `stop` is set.

    Raises:
        PortInUse: the listener's address is taken.
        MemberIdInUse: another coordinator has this id, at start or after this one was cut off.
        EtcdError: etcd cannot be reached at start.
        ClusterReplaced: etcd was emptied or restored, or holds another cluster, since this coordinator has started.
    """
    async with AsyncExitStack() as closing:
        etcd, feed = await follow_cluster(config, Role.GROUP_COORDINATOR, closing)

        tls = begin_rpc_tls(config, Role.GROUP_COORDINATOR, closing)
        server = RpcServer(tls=tls, rules=CALL_RULES)
        rpc_address = config.rpc_address(server.bind(*config.rpc_listener))
        coordinator: GroupCoordinator

        def on_place_changed() -> None:
            coordinator.on_place_changed()

        membership = Membership(
            etcd,
            config.cluster_name,
            own_member(config, Role.GROUP_COORDINATOR, rpc_address, ottla_group_coordinator.__version__),
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
                transaction_shards=coordinator.transaction_shards,
                transactions_ended=coordinator.transactions_ended,
                markers=coordinator.markers,
            )
            closing.callback(metrics.close)
        await serve_until_end(server, stop, feed, membership, log, id=config.node_id, rpc_address=rpc_address)
        await server.set_serving(serving=False)
