"""When a failed connector or task is started again by itself. Pure.

Each failure in a row doubles the pause, up to a maximum; after so many in a row it stays failed. Having run for a
while without failing begins a new row. What raised a `FatalError` is not tried again: somebody has to do something.
What ended with a `RetriableError` is tried for ever, as a broker that is away may be so for a night.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_connect.config import WorkerConfig
from ottla_connect.processes.messages import Outlook

ATTEMPTS_MAX_KEY = "task.restart.attempts.max"
BACKOFF_KEY = "task.restart.backoff.ms"
BACKOFF_MAX_KEY = "task.restart.backoff.max.ms"
RESET_KEY = "task.restart.reset.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often and when to start again.

    Attributes:
        attempts_max: restarts in a row, but for failures that pass by themselves; 0 means none, whatever failed.
        backoff_s: the pause before the first.
        backoff_max_s: the longest pause.
        reset_s: running for so long ends a row of failures.
    """

    attempts_max: int
    backoff_s: float
    backoff_max_s: float
    reset_s: float

    @classmethod
    def of(cls, worker: WorkerConfig, connector: Mapping[str, str]) -> "RestartPolicy":
        """Return the policy of a connector: its own settings where it has valid ones, else the worker's."""

        def number(key: str, default: int) -> int:
            text = connector.get(key, "").strip()
            return int(text) if text.isdecimal() else default

        return cls(
            attempts_max=number(ATTEMPTS_MAX_KEY, worker.task_restart_attempts_max),
            backoff_s=number(BACKOFF_KEY, worker.task_restart_backoff_ms) / 1000,
            backoff_max_s=number(BACKOFF_MAX_KEY, worker.task_restart_backoff_max_ms) / 1000,
            reset_s=number(RESET_KEY, worker.task_restart_reset_ms) / 1000,
        )


@dataclass(slots=True)
class FailureRow:
    """The failures in a row of one connector or task.

    Attributes:
        failures: how many there were.
        counted: those among them that count for the most restarts.
        running_since_s: when it was started last, by a monotonic clock; None while it does not run.
    """

    failures: int = 0
    counted: int = 0
    running_since_s: float | None = None

    def started(self, now_s: float) -> None:
        """Note that it was started."""
        self.running_since_s = now_s

    def failed(self, policy: RestartPolicy, now_s: float, outlook: Outlook) -> float | None:
        """Note that it has failed; returns the seconds until it is to be started again, None for never."""
        if self.running_since_s is not None and now_s - self.running_since_s >= policy.reset_s:
            self.clear()
        self.running_since_s = None
        self.failures += 1
        self.counted += outlook is not Outlook.PASSING
        if outlook is Outlook.FATAL or self.counted > policy.attempts_max or not policy.attempts_max:
            return None
        doublings = min(self.failures - 1, 32)
        return float(min(policy.backoff_s * 2**doublings, policy.backoff_max_s))

    def clear(self) -> None:
        """Begin anew: somebody has changed its settings or restarted it."""
        self.failures = self.counted = 0
