"""How commands name mirror workers, and wait for one."""

import time
from typing import Annotated

import typer

from ottla import completion
from ottla.output import progress_bar
from ottla_operations.workers.mirror_client import MirrorClient
from ottla_operations.workers.worker_client import Unreachable

URL_DEFAULT = "http://127.0.0.1:8084"
URL_VARIABLE = "OTTLA_MIRROR_URL"
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
