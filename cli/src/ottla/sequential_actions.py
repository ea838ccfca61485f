"""The same done to several things, one after the other: report all, fail if any failed."""

from collections.abc import Callable, Sequence

import typer

from ottla.output import note, print_json
from ottla_operations.errors import OperationError
from ottla_operations.workers.worker_client import Refused


def do_each(
    names: Sequence[str],
    action: Callable[[str], str],
    wanted: str,
    *,
    as_json: bool,
    kind: str = "connector",
    refusal: type[OperationError] = Refused,
) -> None:
    """Do something to each, report, and end with exit code 1 if any refused.

    Args:
        names: what they are called.
        action: does it, and returns the word for what was done, such as ``paused``.
        wanted: that word for messages of failure.
        as_json: whether the result is printed for programs.
        kind: what they are, as a field of the JSON result.
        refusal: the error that concerns one of them; any other ends the command.
    """
    results: list[dict[str, str | None]] = []
    for name in names:
        try:
            results.append({kind: name, "status": action(name), "error": None})
        except refusal as error:
            results.append({kind: name, "status": "failed", "error": str(error)})
    if as_json:
        print_json(results)
    for result in results:
        if result["error"] is not None:
            note(f"ottla: {result[kind]} was not {wanted}: {result['error']}")
        elif not as_json:
            print(f"{result['status']} {result[kind]}")
    if any(result["error"] is not None for result in results):
        raise typer.Exit(1)
