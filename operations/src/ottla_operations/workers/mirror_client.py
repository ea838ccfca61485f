"""How mirror workers are reached: their REST API."""

from collections.abc import Sequence
from urllib.parse import quote

from ottla_operations.errors import UsageProblem
from ottla_operations.workers.worker_client import WorkerClient, WorkerKind

ARROW = "->"


class MirrorClient(WorkerClient):
    """A connection to mirror workers."""

    kind = WorkerKind(
        name="mirror worker",
        option="--mirror-url",
        start="ottla up --mirror 1",
        mark=frozenset({"version", "targets", "flows"}),
    )


def flow_path(name: str, *below: str) -> str:
    """Return the path of a flow, or of something below it."""
    return "/".join(["/flows", *(quote(each, safe="") for each in (name, *below))])


def existing_flows(client: MirrorClient, names: Sequence[str]) -> list[str]:
    """Return the named flows, or all if none is named."""
    return list(names) or sorted(each["name"] for each in client.get("/flows"))


def aliases_of(flow: str) -> tuple[str, str]:
    """Return the aliases of a flow's source and target.

    Raises:
        UsageProblem: it is not written as A->B.
    """
    source, arrow, target = flow.partition(ARROW)
    if not (arrow and source and target):
        raise UsageProblem(f"{flow}: write a flow as SOURCE->TARGET, in quotation marks")
    return source, target
