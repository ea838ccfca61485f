"""What runs inside the launcher of a local cluster's services, and inside the services that it forks.

`prepare` does the imports of every service once; a service that is forked shares them and is ready in a fraction of
the time. `run` makes a forked process the service that its channel names: its variables, its command line as others
see it, its `main`. The channel's descriptor stays open for the word that the service is ready.
"""

import importlib
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from ottla_core.lean_imports import leave_out_extras
from ottla_core.readiness import READY_VARIABLE

PREPARE = f"{__name__}:prepare"
ENTRY = f"{__name__}:run"

EXIT_FAILURE = 1

SERVICES = ("ottla_broker.app", "ottla_controller.app", "ottla_group_coordinator.app")
METRICS = ("ottla_core.observe.publishing", "prometheus_client")
"""What every service of a local cluster imports when it serves its metrics."""


@dataclass(frozen=True, slots=True)
class ServiceStart:
    """Which service a process is to be.

    Attributes:
        module: whose `main` it runs.
        command: the command line that would do the same; its arguments are the service's.
        environment: variables to set.
        hidden_variables: variables of the launcher that the service must not see.
    """

    module: str
    command: Sequence[str]
    environment: Mapping[str, str]
    hidden_variables: Sequence[str]

    def to_line(self) -> bytes:
        """Return it as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read what `to_line` wrote."""
        document: dict[str, Any] = json.loads(line)
        return cls(**document)


def prepare() -> None:
    """Import what the services need."""
    leave_out_extras()
    for name in (*SERVICES, *METRICS):
        importlib.import_module(name)


def run(channel: socket.socket) -> int:
    """Be the service that the channel names; returns its exit code."""
    import setproctitle  # noqa: PLC0415 - the supervisor imports this file too, and has no use for it

    with channel.makefile("rb", buffering=0) as stream:
        line = stream.readline()
    if not line:
        return EXIT_FAILURE  # the supervisor has gone
    start = ServiceStart.from_line(line)
    for name in start.hidden_variables:
        os.environ.pop(name, None)
    os.environ.update(start.environment)
    os.environ[READY_VARIABLE] = str(channel.detach())
    setproctitle.setproctitle(" ".join(start.command))
    sys.argv = list(start.command[2:])  # as after `python -m`
    main = importlib.import_module(start.module).main
    try:
        return int(main())
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else EXIT_FAILURE
