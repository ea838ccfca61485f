"""Asking the processes of a cluster for their health, all at a time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from ottla.local.cluster_report import ProcessReport
from ottla.local.health import GrpcHealth, HttpHealth


def ask_all(processes: Sequence[ProcessReport]) -> tuple[ProcessReport, ...]:
    """Return the processes with their states as they are now."""
    return asyncio.run(_ask_all(processes))


async def _ask_all(processes: Sequence[ProcessReport]) -> tuple[ProcessReport, ...]:
    return tuple(await asyncio.gather(*(_ask(process) for process in processes)))


async def _ask(process: ProcessReport) -> ProcessReport:
    if process.state != "ready":
        return process
    if process.rpc is None:
        problem = await HttpHealth(f"http://{process.address}/health").problem()
    else:
        host, _, port = process.rpc.rpartition(":")
        problem = await GrpcHealth(host, int(port)).problem()
    return process if problem is None else replace(process, state="not ready")
