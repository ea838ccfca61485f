"""The frame of a program that is one member of a consumer group, whatever client it uses.

Each client's `member.py` brings a `Driver`; this file runs it. The program reports what happens to it as JSON lines
on standard output (who owns what is known best by the members themselves) and obeys JSON lines on standard input. It
is a process of its own so that it can be killed like one. `group_crew.py` is the other end.
"""

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

POLL_S = 0.05

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """How a member joins.

    Attributes:
        pattern: subscribe to topics that match this regular expression, instead of `topics`.
        assignor: a name that the client's `member.py` knows; None for the client's own default.
        auto_commit_ms: milliseconds between automatic commits; None leaves commits to commands.
    """

    bootstrap: str
    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    protocol: str = "classic"
    assignor: str | None = None
    instance_id: str | None = None
    session_timeout_ms: int = 6000
    heartbeat_interval_ms: int = 500
    auto_commit_ms: int | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "MemberSpec":
        fields = json.loads(text)
        return cls(**{**fields, "topics": tuple(fields["topics"])})


class Report:
    """Writes what happens to standard output, one JSON object per line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        with self._lock:
            sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
            sys.stdout.flush()

    def partitions(self, event: str, partitions: Iterable[Partition]) -> None:
        """Reports that partitions were ``assigned``, ``revoked`` or ``lost``."""
        self(event, partitions=sorted(partitions))

    def record(self, topic: str, partition: int, offset: int) -> None:
        self("record", topic=topic, partition=partition, offset=offset)

    def committed(self, error: object = None) -> None:
        """Reports the outcome of a commit."""
        self("committed", error=None if error is None else str(error))


class Driver(Protocol):
    """One client's consumer, joined to its group."""

    def poll(self) -> None:
        """Reads for a moment and reports records; callbacks of the client report assignments."""

    def commit(self, offsets: dict[Partition, int], metadata: str, *, is_async: bool) -> None:
        """Commits and reports the outcome: at once, or later if it is asynchronous."""

    def seek(self, partition: Partition, offset: int) -> None: ...

    def pause(self, partitions: list[Partition]) -> None: ...

    def resume(self, partitions: list[Partition]) -> None: ...

    def close(self) -> None:
        """Leaves the group."""


def run_member(join: Callable[[MemberSpec, Report], Driver]) -> None:
    """Runs a member until it is told to leave, or its standard input ends, or its client gives up."""
    report = Report()
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    try:
        driver = join(MemberSpec.from_json(sys.argv[1]), report)
        report("started")
        while not _obey(driver, commands):
            driver.poll()
        driver.close()
        report("left")
    except Exception as error:
        report("failed", error=f"{type(error).__name__}: {error}")
        raise


def _read_commands(commands: "queue.SimpleQueue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put({"do": "leave"})


def _obey(driver: Driver, commands: "queue.SimpleQueue[dict[str, Any]]") -> bool:
    """Carries out what was asked; whether that was to leave."""
    while not commands.empty():
        command = commands.get()
        match command["do"]:
            case "leave":
                return True
            case "commit":
                offsets = {(topic, partition): offset for topic, partition, offset in command["offsets"]}
                driver.commit(offsets, command["metadata"], is_async=command["is_async"])
            case "seek":
                driver.seek((command["topic"], command["partition"]), command["offset"])
            case "pause":
                driver.pause([(topic, partition) for topic, partition in command["partitions"]])
            case "resume":
                driver.resume([(topic, partition) for topic, partition in command["partitions"]])
            case unknown:
                raise ValueError(f"unknown command {unknown}")
    return False
