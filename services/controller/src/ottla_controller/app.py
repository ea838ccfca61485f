"""The controller process: `ottla-controller --config FILE [--set key=value …]`.

It listens, registers itself under its address, and campaigns. Any number may run; one leads.
"""

import asyncio
from contextlib import AsyncExitStack
from uuid import uuid4

import structlog

import ottla_controller
from ottla_controller.config import ControllerConfig
from ottla_controller.controller_metrics import serve_metrics
from ottla_controller.leadership_loop import LeadershipLoop
from ottla_controller.service import ControllerService
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.features import SUPPORTED
from ottla_core.cluster.state.model import NO_EPOCH, Member, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.config import load_config
from ottla_core.lifecycle import run_service, wait_for_end
from ottla_core.observe.logs import configure_logs
from ottla_core.observe.traces import TracedProcess, begin_traces
from ottla_core.readiness import announce_ready
from ottla_core.rpc.server import RpcServer
from ottla_proto.gen.ottla.controller_pb2_grpc import add_ControllerServicer_to_server

PROGRAM = "ottla-controller"

log = structlog.get_logger("controller")


def main() -> int:
    """Run a controller until SIGTERM; returns the exit code."""

    async def serve(stop: asyncio.Event) -> None:
        config = load_config(ControllerConfig, program=PROGRAM)
        configure_logs(f"controller-{config.node_id}", level=config.log_level)
        await run_controller(config, stop)

    return run_service(PROGRAM, serve)


async def run_controller(config: ControllerConfig, stop: asyncio.Event) -> None:
    """Run a controller until `stop` is set.

    Raises:
        PortInUse: the listener's address is taken.
        MemberIdInUse: another controller has this id, at start or after this one was cut off.
        EtcdError: etcd cannot be reached at start.
        ClusterReplaced: etcd was emptied or restored, or holds another cluster, since this controller has started.
    """
    async with AsyncExitStack() as closing:
        etcd = EtcdClient.from_settings(config)
        closing.push_async_callback(etcd.close)
        await ensure_cluster_id(etcd, config.cluster_name)
        feed = ClusterStateFeed(etcd, config.cluster_name, age_max_ms=config.view_age_max_ms)
        await feed.start()
        closing.push_async_callback(feed.close)

        tracing = begin_traces(config, _traced_process(config))
        if tracing is not None:
            closing.push_async_callback(tracing.close)
        server = RpcServer(tracing)
        rpc_address = config.rpc_address(server.bind(*config.rpc_listener))
        membership = Membership(
            etcd, config.cluster_name, _member(config, rpc_address), lease_ttl_ms=config.member_lease_ttl_ms
        )
        leadership = LeadershipLoop(
            config=config, etcd=etcd, feed=feed, session=membership.session, rpc_address=rpc_address
        )
        add_ControllerServicer_to_server(ControllerService(leadership), server.server)
        await server.start()
        closing.push_async_callback(server.stop)
        await membership.start()
        closing.push_async_callback(membership.close)
        leadership.start()
        closing.push_async_callback(leadership.close)
        if config.shows_metrics:
            closing.callback(serve_metrics(config, feed, leadership, tracing).close)
        await server.set_serving(serving=True)
        log.info("ready", id=config.node_id, rpc_address=rpc_address)
        announce_ready()
        await wait_for_end(stop, feed.wait_failed(), membership.wait_failed())
        await server.set_serving(serving=False)


def _traced_process(config: ControllerConfig) -> TracedProcess:
    return TracedProcess(PROGRAM, str(config.node_id), config.cluster_name, ottla_controller.__version__)


def _member(config: ControllerConfig, rpc_address: str) -> Member:
    return Member(
        role=Role.CONTROLLER,
        id=config.node_id,
        epoch=NO_EPOCH,
        incarnation=uuid4(),
        rpc_address=rpc_address,
        version=ottla_controller.__version__,
        features=SUPPORTED,
    )
