"""The frame of a program that is one worker of an ETL, whatever client it uses.

It reads records as a member of a consumer group, transforms them, writes the results with acks=all, waits until all
are acknowledged, and then commits and waits for the answer; only then does it read on. Each client brings an
`EtlClient`; this file runs it, as a process of its own. What happens is noted as JSON lines, with the machine's
monotonic clock, which all processes share; `judgement.py` reads them. A commit that fails is noted and left at that,
as the next one covers it; whatever else a client cannot cope with ends its life, and another one takes its place.
"""

import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol, TextIO

READ_S = 0.2
BATCH_RECORDS_MAX = 50
DELIVERY_DEADLINE_S = 60.0
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_MS = 1000
RECONNECT_MS_MAX = 1000
RESTART_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """What a worker is told.

    Attributes:
        worker: its name, unique in a run and without spaces.
        protocol: ``classic`` or ``consumer``.
        notes: the file for its notes.
    """

    bootstrap: str
    worker: str
    group: str
    source: str
    sink: str
    notes: str
    protocol: str = "classic"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Record(NamedTuple):
    """One record of the source."""

    partition: int
    offset: int
    value: str


class Result(NamedTuple):
    """One record for the sink; it goes to the partition that its source has."""

    partition: int
    value: str


class Notes:
    """Writes what happens; a line per event, which a death of the process leaves whole."""

    def __init__(self, file: TextIO):
        self._file = file

    def __call__(self, event: str, **fields: Any) -> None:
        self._file.write(json.dumps({"at_s": time.monotonic(), "event": event, **fields}) + "\n")
        self._file.flush()

    def partitions(self, event: str, partitions: Iterable[int]) -> None:
        """Notes that partitions were ``assigned``, ``revoked`` or ``lost``."""
        self(event, partitions=sorted(partitions))


class EtlClient(Protocol):
    """One client's consumer, joined to its group, and producer."""

    def read(self) -> list[Record]:
        """Up to `BATCH_RECORDS_MAX` records; waits for `READ_S` at most."""

    def publish(self, results: list[Result]) -> None:
        """Writes them and waits until each is acknowledged; raises if one is not."""

    def commit(self, offsets: dict[int, int]) -> None:
        """Commits, by partition, the offsets to go on at, and waits for the answer; raises if that is a refusal."""

    def close(self) -> None:
        """Leaves the group and forgets the producer."""


class Worker:
    """The loop of one worker."""

    def __init__(self, spec: WorkerSpec, notes: Notes, connect: Callable[[WorkerSpec, Notes], EtlClient]):
        self._spec = spec
        self._notes = notes
        self._connect = connect
        self._readings = 0
        self._ending = False

    def end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True

    def run(self) -> None:
        while not self._ending:
            client: EtlClient | None = None
            try:
                client = self._connect(self._spec, self._notes)
                while not self._ending:
                    self._batch(client)
            except Exception as error:  # noqa: BLE001 - whatever it is, an ETL would be started again
                self._notes("failed", error=_told(error))
                time.sleep(RESTART_PAUSE_S)  # what starts failed programs again waits first
            if client is not None:
                client.close()

    def _batch(self, client: EtlClient) -> None:
        records = client.read()
        if not records:
            return
        self._readings += 1
        offsets: dict[int, list[int]] = defaultdict(list)
        for record in records:
            offsets[record.partition].append(record.offset)
        self._notes("read", reading=self._readings, offsets=offsets)
        client.publish([self._transformed(record) for record in records])
        self._notes("published", reading=self._readings)
        self._commit(client, {partition: max(those) + 1 for partition, those in offsets.items()})

    def _commit(self, client: EtlClient, offsets: dict[int, int]) -> None:
        self._notes("commit asked", offsets=offsets)
        try:
            client.commit(offsets)
        except Exception as error:  # noqa: BLE001 - clients have many words for it
            self._notes("commit refused", offsets=offsets, error=_told(error))
        else:
            self._notes("committed", offsets=offsets)

    def _transformed(self, record: Record) -> Result:
        origin = f"{self._spec.worker} {self._readings} {record.partition} {record.offset}"
        return Result(record.partition, f"{origin} {record.value.upper()}")


def run_worker(connect: Callable[[WorkerSpec, Notes], EtlClient]) -> None:
    """Runs a worker by the specification in the first argument, until SIGTERM."""
    spec = WorkerSpec(**json.loads(sys.argv[1]))
    with Path(spec.notes).open("a") as file:
        worker = Worker(spec, Notes(file), connect)
        signal.signal(signal.SIGTERM, worker.end)
        worker.run()


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
