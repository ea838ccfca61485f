"""Watching a flow until it has copied what there is: a progress bar with rate and time left."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.mirror.duration_text import duration_text
from ottla.output import progress_bar
from ottla_operations.errors import OperationError
from ottla_operations.quantities import human_bytes

LOOK_INTERVAL_S: Final = 0.5


def watch_until_copied(ask: Callable[[], Mapping[str, Any]], *, within_s: float | None = None) -> Mapping[str, Any]:
    """Return the lag when the target has everything.

    Args:
        ask: returns the flow's lag.
        within_s: for how long at most, in seconds; None for ever.

    Raises:
        OperationError: the flow has failed, or the time is up.
    """
    deadline = None if within_s is None else time.monotonic() + within_s
    with progress_bar("rate", "left") as bar:
        task = bar.add_task("looking at topics", total=None, rate="", left="")
        while True:
            lag = ask()
            if lag["state"] == "FAILED":
                raise OperationError(f"{lag['name']} has failed; `ottla mirror status '{lag['name']}'` tells why")
            if is_copied(lag):
                return lag
            if deadline is not None and time.monotonic() > deadline:
                raise OperationError(
                    f"{lag['name']} is behind by {lag['lag_records']:,} records after {within_s:g} s"
                )
            left = lag["seconds_left"]
            bar.update(
                task,
                description=f"{lag['name']}: {lag['lag_records']:,} records to copy",
                total=max(1, lag["source_records"]),
                completed=max(0, lag["source_records"] - lag["lag_records"]),
                rate=f"{human_bytes(lag['bytes_per_second'])}/s",
                left="" if left is None else f"{duration_text(left)} left",
            )
            time.sleep(LOOK_INTERVAL_S)


def is_copied(lag: Mapping[str, Any]) -> bool:
    """Return whether the target has everything, as far as is known of every partition."""
    return bool(lag["state"] != "STARTING" and lag["lag_records"] == 0 and lag["partitions_unknown"] == 0)
