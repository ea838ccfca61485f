"""The controller process: `ottla-controller --config FILE [--set key=value …]`.

It listens, registers itself under its address, and campaigns. Any number may run; one leads.
"""

import asyncio
from contextlib import AsyncExitStack

import structlog

import ottla_controller
from ottla_controller.call_rules import CALL_RULES
from ottla_controller.config import ControllerConfig
from ottla_controller.controller_metrics import serve_metrics
from ottla_controller.leadership_loop import LeadershipLoop
from ottla_controller.service import ControllerService
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import Role
from ottla_core.cluster_process import begin_rpc_tls, follow_cluster, own_member, run_cluster_process, serve_until_end
from ottla_core.observe.traces import TracedProcess, begin_traces
from ottla_core.rpc.server import RpcServer
from ottla_proto.gen.ottla.controller_pb2_grpc import add_ControllerServicer_to_server

PROGRAM = "ottla-controller"

log = structlog.get_logger("controller")


def main() -> int:
    """Run a controller until SIGTERM; returns the exit code."""
    return run_cluster_process(PROGRAM, Role.CONTROLLER, ControllerConfig, run_controller)


async def run_controller(config: ControllerConfig, stop: asyncio.Event) -> None:
    """Run a controller until `stop` is set.

    Raises:
        PortInUse: the listener's address is taken.
        MemberIdInUse: another controller has this id, at start or after this one was cut off.
        EtcdError: etcd cannot be reached at start.
        ClusterReplaced: etcd was emptied or restored, or holds another cluster, since this controller has started.
    """
    async with AsyncExitStack() as closing:
        etcd, feed = await follow_cluster(config, Role.CONTROLLER, closing)

        tracing = begin_traces(config, _traced_process(config))
        if tracing is not None:
            closing.push_async_callback(tracing.close)
        tls = begin_rpc_tls(config, Role.CONTROLLER, closing)
        server = RpcServer(tracing, tls=tls, rules=CALL_RULES)
        rpc_address = config.rpc_address(server.bind(*config.rpc_listener))
        membership = Membership(
            etcd,
            config.cluster_name,
            own_member(config, Role.CONTROLLER, rpc_address, ottla_controller.__version__),
            lease_ttl_ms=config.member_lease_ttl_ms,
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
        await serve_until_end(server, stop, feed, membership, log, id=config.node_id, rpc_address=rpc_address)
        await server.set_serving(serving=False)


def _traced_process(config: ControllerConfig) -> TracedProcess:
    return TracedProcess(PROGRAM, str(config.node_id), config.cluster_name, ottla_controller.__version__)
