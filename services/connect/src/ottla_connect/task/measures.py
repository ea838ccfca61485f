"""Readings of a task: the runtime's, named like the sensors of Kafka Connect's tasks, and the plugin's own."""

import threading
from dataclasses import dataclass, field

from ottla_sdk import Metrics


@dataclass(slots=True)
class Spread:
    """Sizes or durations of something that happens again and again."""

    count: int = 0
    total: float = 0.0
    maximum: float = 0.0

    def add(self, value: float) -> None:
        """Count one more."""
        self.count += 1
        self.total += value
        self.maximum = max(self.maximum, value)

    @property
    def average(self) -> float:
        """The average of all."""
        return self.total / self.count if self.count else 0.0


@dataclass(slots=True)
class ErrorMeasures:
    """What went wrong with records (Kafka's task-error-metrics)."""

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    retries: int = 0
    logged: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0
    last_error_timestamp_ms: float = 0.0

    def readings(self) -> dict[str, float]:
        """Return them by name."""
        return {
            "total-record-failures": self.failures,
            "total-record-errors": self.errors,
            "total-records-skipped": self.skipped,
            "total-retries": self.retries,
            "total-errors-logged": self.logged,
            "deadletterqueue-produce-requests": self.dead_letters,
            "deadletterqueue-produce-failures": self.dead_letter_failures,
            "last-error-timestamp": self.last_error_timestamp_ms,
        }


@dataclass(slots=True)
class TaskMeasures:
    """What tasks of both kinds have.

    Attributes:
        kind: source or sink; in the names of some readings.
        taken: records that came from the source task, or from topics.
        given: records that topics have acknowledged, or that the sink task has taken.
        active: records between the two.
        batches: their sizes.
        batch_time_ms: how long `poll` or `put` takes.
        commits: how long successful commits of offsets take, in milliseconds.
        commit_failures: commits that failed.
        transactions: sizes of committed transactions, in records.
        partitions: how many partitions a sink task has.
    """

    kind: str
    taken: int = 0
    given: int = 0
    active: int = 0
    batches: Spread = field(default_factory=Spread)
    batch_time_ms: Spread = field(default_factory=Spread)
    commits: Spread = field(default_factory=Spread)
    commit_failures: int = 0
    transactions: Spread = field(default_factory=Spread)
    partitions: int = 0
    errors: ErrorMeasures = field(default_factory=ErrorMeasures)

    def readings(self) -> dict[str, float]:
        """Return them by name."""
        taken, given, call = (
            ("poll", "write", "poll-batch") if self.kind == "source" else ("read", "send", "put-batch")
        )
        attempts = self.commits.count + self.commit_failures
        return {
            f"{self.kind}-record-{taken}-total": self.taken,
            f"{self.kind}-record-{given}-total": self.given,
            f"{self.kind}-record-active-count": self.active,
            f"{call}-avg-time-ms": self.batch_time_ms.average,
            f"{call}-max-time-ms": self.batch_time_ms.maximum,
            "batch-size-avg": self.batches.average,
            "batch-size-max": self.batches.maximum,
            "offset-commit-avg-time-ms": self.commits.average,
            "offset-commit-max-time-ms": self.commits.maximum,
            "offset-commit-completion-total": self.commits.count,
            "offset-commit-failure-total": self.commit_failures,
            "offset-commit-success-percentage": self.commits.count / attempts if attempts else 0.0,
            "offset-commit-failure-percentage": self.commit_failures / attempts if attempts else 0.0,
            **self._transaction_readings(),
            **({"partition-count": self.partitions} if self.kind == "sink" else {}),
            **self.errors.readings(),
        }

    def _transaction_readings(self) -> dict[str, float]:
        if not self.transactions.count:
            return {}
        return {
            "transaction-size-avg": self.transactions.average,
            "transaction-size-max": self.transactions.maximum,
        }


class PluginMetrics(Metrics):
    """A plugin's own counters and gauges; any thread may change them."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, name: str, count: int | float = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._values[name] = self._values.get(name, 0) + count

    def set(self, name: str, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[name] = value

    def readings(self) -> dict[str, float]:
        """Return them by name."""
        with self._lock:
            return dict(self._values)
