"""How a job says what it is doing: the last of what it reported, sent to the worker every few seconds."""

import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

from ottla_connect.processes.messages import Progressed
from ottla_connect.task.control import Control
from ottla_sdk.runtime.redaction import Redaction

PROGRESS_CHARACTERS_MAX = 64 * 1024
"""The worker keeps it in the status topic."""

log = logging.getLogger(__name__)


class Progress:
    """Keeps what a job has reported until it is sent; any thread may call its methods."""

    def __init__(self, control: Control, redaction: Redaction) -> None:
        self._control = control
        self._redaction = redaction
        self._waiting: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def report(self, progress: Mapping[str, Any]) -> None:
        """Take what the job says; raises what `json.dumps` does if it is no JSON."""
        text = json.dumps(progress)
        if len(text) > PROGRESS_CHARACTERS_MAX:
            log.warning("the job's progress is not shown: it has %d characters", len(text))
            return
        with self._lock:
            self._waiting = self._redaction.document(json.loads(text))

    def send(self) -> None:
        """Send the last, unless it was sent before."""
        with self._lock:
            if self._waiting is not None:
                self._control.send(Progressed(progress=self._waiting))
                self._waiting = None

    def forget(self) -> None:
        """Send no more of what was reported up to now: the worker takes progress as a sign that the task runs."""
        with self._lock:
            self._waiting = None
