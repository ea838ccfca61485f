"""The same done to several connectors, each of which succeeds or fails by itself: report all, fail if any failed."""

from collections.abc import Callable, Sequence

import typer

from ottla.connect.connect_client import Refused
from ottla.output import note, print_json


def do_each(names: Sequence[str], action: Callable[[str], str], wanted: str, *, as_json: bool) -> None:
    """Do something to each connector, report, and end with exit code 1 if any refused.

    Args:
        names: the connectors.
        action: does it, and returns the word for what was done, such as ``paused``.
        wanted: that word for messages of failure.
        as_json: whether the result is printed for programs.
    """
    results: list[dict[str, str | None]] = []
    for name in names:
        try:
            results.append({"connector": name, "status": action(name), "error": None})
        except Refused as refusal:
            results.append({"connector": name, "status": "failed", "error": str(refusal)})
    if as_json:
        print_json(results)
    for result in results:
        if result["error"] is not None:
            note(f"ottla: {result['connector']} was not {wanted}: {result['error']}")
        elif not as_json:
            print(f"{result['status']} {result['connector']}")
    if any(result["error"] is not None for result in results):
        raise typer.Exit(1)
