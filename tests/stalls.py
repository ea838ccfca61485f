"""A machine that stands still now and then: `python -m tests.stalls make check-services`.

Runs a command, and stops it with all the processes that come of it, together and at random moments, as where a
virtual machine has to wait for its host. No process is ended and nothing is lost, but the clocks go on: a test that
fails has counted on how long a step takes, or on a lease that it left short. What has left its parents, as a cluster
in the background has, goes on.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.support.machine.process_stat import stat


def main() -> int:
    """Run the command line's command among stalls, and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.stalls", description="Run a command that stands still now and then."
    )
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="SECONDS", help="between two stalls, on average (2)"
    )
    parser.add_argument("--longest", type=float, default=1.0, metavar="SECONDS", help="how long a stall may be (1)")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the moments; the command's own course differs anyway"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.command:
        parser.error("a command is lacking")
    seed = random.randrange(2**32) if options.seed is None else options.seed
    chance = random.Random(seed)
    count = 0
    with subprocess.Popen(options.command) as process:
        while not _has_ended_within(process, chance.uniform(0, 2 * options.every)):
            stopped: list[int] = []
            try:
                stopped.extend(_stop_all())
                time.sleep(chance.uniform(0, options.longest))  # how long it stands still, is what is tried
            finally:
                for pid in reversed(stopped):
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGCONT)
            count += 1
    print(f"stood still {count} times (seed {seed})", file=sys.stderr)
    return process.returncode


def _has_ended_within(process: subprocess.Popen[bytes], duration_s: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(duration_s)
    return process.returncode is not None


def _stop_all() -> Iterator[int]:
    """Stop whatever runs and has come of this process, parents first; yield what was stopped."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children[int(stat(int(entry.name))[1])].append(int(entry.name))
    found = [os.getpid()]
    for pid in found:
        for child in children[pid]:
            found.append(child)
            if stat(child)[0] in "RSD":  # a process that a test has stopped itself stays so
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGSTOP)
                    yield child


if __name__ == "__main__":
    sys.exit(main())
