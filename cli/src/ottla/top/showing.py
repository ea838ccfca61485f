"""Looking at a cluster and showing what happened since the look before."""

import time
from collections.abc import Sequence

from ottla.kafka_client import client_config
from ottla.output import print_json, write_result
from ottla.top.screen import screen
from ottla.top.terminal import Terminal
from ottla_operations.activity.activity import activity
from ottla_operations.activity.sample import Sample, Sampler
from ottla_operations.errors import OperationError

QUIT = "q"


def show_once(bootstrap: str, properties: Sequence[str] | None, *, interval_s: float, as_json: bool) -> None:
    """Look twice, and print what happened in between.

    Raises:
        OperationError: no broker answers.
    """
    sampler = Sampler(bootstrap, client_config(bootstrap, properties))
    former = sampler.take()
    time.sleep(interval_s)
    found = activity(former, sampler.take())
    if as_json:
        print_json(found.to_document())
    else:
        text = screen(found, title=f"cluster {found.cluster_id}, over {interval_s:g} s")
        write_result(f"{text}\n".encode(errors="backslashreplace"))


def show_until_quit(
    bootstrap: str, properties: Sequence[str] | None, terminal: Terminal, *, interval_s: float
) -> None:
    """Show on a terminal what happens, until somebody presses q.

    A cluster that does not answer is told on the screen, with what was seen last.

    Raises:
        OperationError: no broker answers the first look.
    """
    sampler = Sampler(bootstrap, client_config(bootstrap, properties))
    former = sampler.take()
    last = activity(former, former)
    title = f"cluster {last.cluster_id}: a first look, rates come in {interval_s:g} s; q quits"
    with terminal:
        while True:
            columns, lines = terminal.size
            terminal.show(screen(last, title=title, lines=lines - 1, width=columns))
            try:
                if QUIT in terminal.key(interval_s):
                    return
                new = sampler.take()
            except OperationError as error:
                title = str(error)
                continue
            except KeyboardInterrupt:
                return
            last, title = activity(former, new), _title(new, interval_s)
            former = new


def _title(sample: Sample, interval_s: float) -> str:
    return f"cluster {sample.view.cluster_id}, every {interval_s:g} s; q quits"
