"""What is looked at before a worker begins: whether the clusters of its flows are there, take us, and are two.

A cluster that is away keeps only its own flows from running, which go on when it is back; so a worker ends for that
only where no flow could run. That a cluster does not accept us, or is both ends of a flow, is a mistake.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.errors import ConfigurationError
from ottla_mirror.config.clients import ClientConfig
from ottla_mirror.config.mirror_config import MirrorConfig
from ottla_mirror.state.flow_records import ClusterIds
from ottla_mirror.workers.clusters import FlowRefused, check_clusters, connected

PATIENCE_S: Final = 15.0
RETRY_PAUSE_S: Final = 0.5

log = structlog.get_logger("mirror")

Answer = str | Unreachable | AuthenticationFailed | UnsupportedByBroker


async def check_flows(config: MirrorConfig) -> None:
    """Look at the clusters of all flows; without flows, at all clusters.

    Raises:
        ConfigurationError: a cluster does not accept us, or a flow has the same cluster at both ends; with everything
            that is wrong.
        Unreachable: no flow can run, since clusters do not answer.
    """
    clients: dict[str, ClientConfig] = {}
    for flow in config.flows.values():
        clients.setdefault(flow.source, flow.source_clients.admin)
        clients.setdefault(flow.target, flow.target_clients.admin)
    if not config.flows:
        clients = {alias: each.admin for alias, each in config.clusters.items()}
    answers = dict(zip(clients, await asyncio.gather(*map(_cluster_id, clients.values())), strict=True))
    problems = [
        f"{alias}: {answer}"
        for alias, answer in answers.items()
        if isinstance(answer, AuthenticationFailed | UnsupportedByBroker)
    ]
    problems += _not_two(config, answers)
    if problems:
        raise ConfigurationError("\n  ".join(["the flows cannot run:", *problems]))
    away = {alias: str(answer) for alias, answer in answers.items() if isinstance(answer, Unreachable)}
    runs = any(flow.source not in away and flow.target not in away for flow in config.flows.values())
    for alias, reason in away.items():
        log.warning("cluster does not answer", cluster=alias, reason=reason)
    if away and not runs and (config.flows or len(away) == len(clients)):
        told = "; ".join(f"{alias}: {reason}" for alias, reason in away.items())
        raise Unreachable(f"no flow can run, since clusters do not answer: {told}")


def _not_two(config: MirrorConfig, answers: Mapping[str, Answer]) -> list[str]:
    problems = []
    for name, flow in config.flows.items():
        source, target = answers[flow.source], answers[flow.target]
        if isinstance(source, str) and isinstance(target, str):
            try:
                check_clusters(name, ClusterIds(source=source, target=target), None)
            except FlowRefused as error:
                problems.append(str(error))
    return problems


async def _cluster_id(client: ClientConfig) -> Answer:
    """Return a cluster's id, or why it does not tell; one that is just starting has some time."""
    cluster = connected(client)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    try:
        while True:
            try:
                return (await cluster.metadata((), timeout_s=max(deadline_s - loop.time(), 0.1))).cluster_id
            except Unreachable as error:
                if loop.time() + RETRY_PAUSE_S >= deadline_s:
                    return error
            except (AuthenticationFailed, UnsupportedByBroker) as error:
                return error
            await asyncio.sleep(RETRY_PAUSE_S)
    finally:
        await cluster.close()
