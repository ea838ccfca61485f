"""Looking at the partitions of a cluster that has just been started, by a process of its own.

`ottla up` goes on as the supervisor, and has no use for a Kafka client in its memory.
"""

import os
import subprocess
import sys

from ottla.local import tied_exec
from ottla.local.cluster_directory import DIRECTORY_VARIABLE

GROWN = "grown"
"""Asks for advice about replicas, too."""


def problem_after_start(bootstrap: str, directory: str, *, has_grown: bool = False) -> str | None:
    """Return what cannot be used although everything is ready, or None; blocks for a few seconds at most.

    Args:
        bootstrap: addresses of brokers.
        directory: of the cluster, which knows the settings of its clients.
        has_grown: whether there are more brokers than the last time, so that what has too few replicas is told, too.
    """
    asking = subprocess.run(
        [
            *(sys.executable, "-I", "-S", tied_exec.__file__, str(os.getpid())),
            *(sys.executable, "-m", "ottla.local.partition_health", bootstrap, *([GROWN] if has_grown else [])),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the supervisor, whose end is that of this process
        env={**os.environ, DIRECTORY_VARIABLE: directory},
        text=True,
        check=False,
    )
    return asking.stdout.strip() or None
