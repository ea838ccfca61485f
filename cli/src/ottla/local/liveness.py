"""Asking the processes of a cluster for their health, all at a time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ottla.local.health import GrpcHealth, HttpHealth, RpcTlsSource
from ottla_core.rpc_identity import RpcIdentity
from ottla_operations.local_clusters.cluster_report import ProcessReport


def ask_all(processes: Sequence[ProcessReport], tls: RpcTlsSource | None = None) -> tuple[ProcessReport, ...]:
    """Return the processes with their states as they are now; `tls` is what they want to be shown."""
    return asyncio.run(_ask_all(processes, tls))


async def _ask_all(processes: Sequence[ProcessReport], tls: RpcTlsSource | None) -> tuple[ProcessReport, ...]:
    return tuple(await asyncio.gather(*(_ask(process, tls) for process in processes)))


async def _ask(process: ProcessReport, tls: RpcTlsSource | None) -> ProcessReport:
    if process.state != "ready":
        return process
    if process.rpc is None:
        page = process.metrics if process.role == "etcd" and process.metrics else f"http://{process.address}/"
        problem = await HttpHealth(f"{page.rpartition('/')[0]}/health").problem()
    else:
        host, _, port = process.rpc.rpartition(":")
        problem = await GrpcHealth(host, int(port), RpcIdentity(process.role, process.id), tls).problem()
    return process if problem is None else replace(process, state="not ready")
