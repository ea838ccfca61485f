"""A stand-in for a service, for the tests of the launcher: shows what it was given, says it is ready, and waits.

Its second argument is what it does: ``wait`` for SIGTERM and end with 0, ``fail`` with 7, ``raise``, or ``silent``,
which is ``wait`` without a word.
"""

import json
import os
import signal
import sys
from pathlib import Path

from ottla_core.readiness import READY_VARIABLE, announce_ready

EXIT_FAILED = 7


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cmdline = Path("/proc/self/cmdline").read_text().rstrip("\0")
    variables = {name: os.environ.get(name) for name in ("GIVEN", "HIDDEN")}
    shown = {
        "arguments": sys.argv,
        "cmdline": cmdline,
        "variables": variables,
        "session": os.getsid(0) == os.getpid(),
    }
    print(json.dumps(shown), flush=True)
    match sys.argv[1]:
        case "fail":
            return EXIT_FAILED
        case "raise":
            raise RuntimeError("the reason")
        case "wait":
            announce_ready()
            assert READY_VARIABLE not in os.environ
    while True:
        signal.pause()
