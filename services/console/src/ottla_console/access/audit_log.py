"""The audit log of the console: every action with user, cluster, target and outcome, in the log and in a file."""

import asyncio
import json
import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import structlog

from ottla_core.errors import ConfigurationError

RECORDS_KEPT_MAX: Final = 1000
"""Newest records, which a page shows."""
Outcome = Literal["done", "failed", "refused"]

log = structlog.get_logger("audit")


class AuditLog:
    """Writes records.

    Attributes:
        outcomes: how many there were.
        newest: of this process, as they stand in the file.

    Args:
        path: a file that lines of JSON are added to; None for the log alone.

    Raises:
        ConfigurationError: the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._descriptor: int | None = None
        self.newest: deque[dict[str, Any]] = deque(maxlen=RECORDS_KEPT_MAX)
        self.outcomes: dict[str, int] = {"done": 0, "failed": 0, "refused": 0}
        if path is not None:
            try:
                self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            except OSError as error:
                raise ConfigurationError(f"audit.log.path: cannot write {path}: {error.strerror}") from None

    async def record(
        self, outcome: Outcome, *, user: str, cluster: str, action: str, target: str, **details: Any
    ) -> None:
        """Write a record; a file that cannot be written is told in the log."""
        self.outcomes[outcome] += 1
        record = {"user": user, "cluster": cluster, "action": action, "target": target, "outcome": outcome, **details}
        log.info("action", **record)
        timed = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **record}
        self.newest.append(timed)
        if self._descriptor is None:
            return
        line = json.dumps(timed, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
        try:
            await asyncio.to_thread(os.write, self._descriptor, line)
        except OSError as error:
            log.error("the audit log cannot be written", reason=error.strerror, **record)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
