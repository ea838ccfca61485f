"""How a service says that it is ready, to a process that wants to be told rather than ask again and again.

They give the service a descriptor and name it in `OTTLA_READY_FD`; the service writes a line to it, once.
"""

import os
from contextlib import suppress

READY_VARIABLE = "OTTLA_READY_FD"
READY_LINE = b"ready\n"


def announce_ready() -> None:
    """Tell the process that has started this service that it is ready, if it has asked."""
    descriptor = os.environ.pop(READY_VARIABLE, None)
    if descriptor is None:
        return
    with open(int(descriptor), "wb", buffering=0) as waiting, suppress(OSError):  # noqa: PTH123 - a number, no path
        waiting.write(READY_LINE)  # they may have gone
