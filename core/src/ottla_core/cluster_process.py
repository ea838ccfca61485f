"""How a broker, a controller and a group coordinator start: what the three have in common.

`run_cluster_process` reads the settings and begins the logs. Inside, `follow_cluster` connects to etcd and follows
the cluster's state, `own_member` is what a process registers of itself, and `serve_until_end` says that it is ready
and waits for its end. What lies between is each process's own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import structlog

from ottla_core.background import start_recurring
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.cluster_id import ensure_cluster_id
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.features import SUPPORTED
from ottla_core.cluster.state.keys import KeySpace
from ottla_core.cluster.state.model import NO_EPOCH, Member, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.config import ClusterProcessConfig, load_config
from ottla_core.lifecycle import run_service, wait_for_end
from ottla_core.observe.logs import configure_logs
from ottla_core.readiness import announce_ready
from ottla_core.rpc.refusals import rpc_security
from ottla_core.rpc.server import RpcServer
from ottla_core.rpc_identity import RpcIdentity, RpcNames

if TYPE_CHECKING:
    from ottla_core.rpc.tls import RpcTls

Config = TypeVar("Config", bound=ClusterProcessConfig)


def run_cluster_process(
    program: str,
    role: Role,
    config_model: type[Config],
    run: Callable[[Config, asyncio.Event], Awaitable[None]],
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Run a process of a cluster until SIGTERM, as its command line says; return the exit code.

    Args:
        program: the command, such as ``ottla-broker``.
        role: what the process is; its logs name it.
        config_model: the settings that it has.
        run: the process; it is given the settings and the event that asks it to stop.
        new_event_loop: makes the event loop; asyncio's own by default.
    """

    async def serve(stop: asyncio.Event) -> None:
        config = load_config(config_model, program=program)
        configure_logs(f"{role}-{config.node_id}", level=config.log_level)
        await run(config, stop)

    return run_service(program, serve, new_event_loop)


def begin_rpc_tls(config: ClusterProcessConfig, role: Role, closing: AsyncExitStack) -> "RpcTls | None":
    """Return the TLS between this process and others, kept up to date until the stack ends; None without TLS.

    Raises:
        ConfigurationError: its files cannot be used, or are another process's.
    """
    if config.rpc_tls_ca is None or config.rpc_tls_certificate is None or config.rpc_tls_key is None:
        return None
    from ottla_core.rpc.tls import RpcTls, RpcTlsFiles  # noqa: PLC0415 - what it imports has its price

    tls = RpcTls(
        RpcTlsFiles(config.rpc_tls_ca, config.rpc_tls_certificate, config.rpc_tls_key),
        RpcNames(config.rpc_tls_name, config.cluster_name),
        RpcIdentity(role.value, config.node_id),
    )
    rpc_security.tls = tls
    closing.callback(start_recurring("rpc certificates", tls.keep).cancel)
    return tls


def open_etcd(config: ClusterProcessConfig, closing: AsyncExitStack) -> EtcdClient:
    """Return a client of etcd that goes on with new certificates, and ends with the stack.

    Raises:
        ConfigurationError: an endpoint is malformed or a TLS file cannot be used.
    """
    etcd = EtcdClient.from_settings(config)
    closing.push_async_callback(etcd.close)
    if etcd.has_files:
        closing.callback(start_recurring("certificate for etcd", etcd.keep_certificate).cancel)
    return etcd


async def follow_cluster(
    config: ClusterProcessConfig, role: Role, closing: AsyncExitStack
) -> tuple[EtcdClient, ClusterStateFeed]:
    """Return a client of etcd and the feed of the cluster's state; both end with the stack.

    Raises:
        EtcdError: etcd cannot be reached.
    """
    etcd = open_etcd(config, closing)
    await ensure_cluster_id(etcd, config.cluster_name)
    own_key = KeySpace(config.cluster_name).member(role, config.node_id)
    feed = ClusterStateFeed(etcd, config.cluster_name, age_max_ms=config.view_age_max_ms, own_key=own_key)
    await feed.start()
    closing.push_async_callback(feed.close)
    return etcd, feed


def own_member(config: ClusterProcessConfig, role: Role, rpc_address: str, version: str) -> Member:
    """Return what a process registers of itself at first: under a new incarnation, without an epoch yet."""
    return Member(
        role=role,
        id=config.node_id,
        epoch=NO_EPOCH,
        incarnation=uuid4(),
        rpc_address=rpc_address,
        version=version,
        features=SUPPORTED,
    )


async def serve_until_end(
    server: RpcServer,
    stop: asyncio.Event,
    feed: ClusterStateFeed,
    membership: Membership,
    logger: structlog.stdlib.BoundLogger,
    **facts: object,
) -> None:
    """Say that the process is ready, and return when it shall stop.

    Args:
        server: says so in health checks.
        stop: set when the process shall stop.
        feed: its failure ends the process.
        membership: likewise.
        logger: says so, with `facts`.
        **facts: what the line in the log tells.

    Raises:
        OttlaError: the process must end.
    """
    await server.set_serving(serving=True)
    logger.info("ready", **facts)
    announce_ready()
    await wait_for_end(stop, feed.wait_failed(), membership.wait_failed())
