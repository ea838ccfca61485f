"""How `ottla mirror` reaches mirror workers: their REST API."""

import time
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote

import typer

from ottla import completion
from ottla.errors import UsageProblem
from ottla.output import progress_bar
from ottla.worker_client import Unreachable, WorkerClient, WorkerKind

URL_DEFAULT = "http://127.0.0.1:8084"
URL_VARIABLE = "OTTLA_MIRROR_URL"
ARROW = "->"
START_PATIENCE_S = 15.0
LOOK_INTERVAL_S = 0.2

MirrorUrl = Annotated[
    str,
    typer.Option(
        "--mirror-url",
        envvar=URL_VARIABLE,
        metavar="URL[,…]",
        help="Where a mirror worker listens; of several the first that is there.",
    ),
]
FlowNames = Annotated[
    list[str], typer.Argument(metavar="FLOW", autocompletion=completion.flows, help="One or more flows, as A->B.")
]
FlowsOrAll = Annotated[
    list[str] | None,
    typer.Argument(metavar="FLOW", autocompletion=completion.flows, show_default="all", help="The flows, as A->B."),
]


class MirrorClient(WorkerClient):
    """A connection to mirror workers."""

    kind = WorkerKind(
        name="mirror worker",
        option="--mirror-url",
        start="ottla up --mirror 1",
        mark=frozenset({"version", "targets", "flows"}),
    )


def wait_for_worker(client: MirrorClient, *, within_s: float | None) -> None:
    """Return when a worker answers: who types commands one after the other has started it a moment ago.

    Args:
        client: of the workers.
        within_s: for how long the caller waits at most, in seconds; None for as long as a worker takes to start.

    Raises:
        Unreachable: none answers.
    """
    deadline = time.monotonic() + min(START_PATIENCE_S, START_PATIENCE_S if within_s is None else within_s)
    with progress_bar() as bar:
        bar.add_task("waiting for a mirror worker", total=None)
        while True:
            try:
                client.get("/")
            except Unreachable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_INTERVAL_S)
            else:
                return


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
