"""What a secured local cluster needs before it starts: its certificates; and before its services do: users in etcd.

Both are done by processes of their own, which keeps cryptography and gRPC out of the supervisor's memory.
"""

import asyncio
import sys

from ottla.local.cluster_directory import ClusterDirectory
from ottla.local.plan import ClusterOptions, ClusterPlan
from ottla.local.secure_plan import CLUSTER, TLS_FOLDER, connector_files_of
from ottla_operations.errors import OperationError

MODULE = "ottla.secure.local_certificates"
USERS_WITHIN_S = 60.0


def counts_of(options: ClusterOptions) -> dict[str, int]:
    """Return how many processes of each role have certificates."""
    return {
        "broker": options.brokers,
        "controller": options.controllers,
        "group-coordinator": options.coordinators,
        "etcd": options.etcd_nodes,
        "connect": len(options.connect_ports),
        "mirror": len(options.mirror_ports),
    }


async def make_certificates(directory: ClusterDirectory, plan: ClusterPlan) -> None:
    """Have certificates for all processes of a plan, the administrator's client file, and a folder for connectors.

    Raises:
        OperationError: they cannot be made.
    """
    connector_files_of(directory.path).mkdir(exist_ok=True)
    counts = [f"{role}={count}" for role, count in counts_of(plan.options).items()]
    await _run("-m", MODULE, str(directory.path / TLS_FOLDER), CLUSTER, plan.bootstrap, *counts)


async def make_etcd_users(directory: ClusterDirectory, plan: ClusterPlan) -> None:
    """Have etcd know every process, and ask who calls.

    Raises:
        OperationError: etcd refuses.
    """
    folder = str(directory.path / TLS_FOLDER)
    await _run("-m", "ottla.main", "secure", "etcd-users", folder, "--etcd", plan.etcd_endpoints[0])


async def _run(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(USERS_WITHIN_S):
            _, said = await process.communicate()
    except TimeoutError:
        raise OperationError(f"securing the cluster took longer than {USERS_WITHIN_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise OperationError(f"the cluster cannot be secured: {said.decode(errors='replace').strip()}")
