"""The states of connectors and tasks: what users want and what workers tell, in Kafka Connect's words. Pure.

The internal topics store them, the herder decides by them, and the REST API shows them.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class TargetState(enum.StrEnum):
    """What the users want a connector to be."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(enum.StrEnum):
    """What a connector or task is."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of a connector or task.

    Attributes:
        state: what it is.
        worker_id: HOST:PORT of the worker that runs it, or ran it last.
        trace: why it failed; empty if it has not.
        generation: the group's generation in which it was said.
        version: the plugin's version; empty if not known.
        progress: what a task has said of how its work goes; None if nothing.
        health: whether it works or waits, for what, how fast and how far behind; None if it has not said.
    """

    state: State
    worker_id: str
    trace: str = ""
    generation: int = -1
    version: str = ""
    progress: Mapping[str, Any] | None = None
    health: Mapping[str, Any] | None = None
