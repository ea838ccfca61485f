"""The frame of a program that copies records from topic to topic in transactions, whatever client it uses.

It does what Kafka's TransactionalMessageCopier does: it reads committed records, writes them to the same partitions
of the next topic, commits how far it has come in the same transaction, and aborts some transactions by chance.
Whatever goes wrong, it begins anew with new clients under its transactional id; only when it is fenced it ends, by
`FENCED_CODE`. One copier at a time works on a topic: its transactional id is its claim.
"""

import json
import random
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import FrameType
from typing import NamedTuple, Protocol

FENCED_CODE = 3
READ_S = 0.2
BATCH_RECORDS_MAX = 40
ABORT_CHANCE = 0.2
TRANSACTION_TIMEOUT_MS = 20_000
SESSION_TIMEOUT_MS = 6000
HEARTBEAT_INTERVAL_MS = 1000
CALL_DEADLINE_S = 60.0


class Fenced(Exception):
    """Another producer has the transactional id now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopierSpec:
    """What a copier is told.

    Attributes:
        name: its transactional id and its group.
        partitions: of both topics.
        seed: by which it aborts.
    """

    bootstrap: str
    name: str
    source: str
    sink: str
    partitions: int
    seed: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Copy(NamedTuple):
    """A record that was read."""

    partition: int
    offset: int
    key: bytes
    value: bytes


class CopierClient(Protocol):
    """One client's consumer and producer."""

    def read(self) -> list[Copy]:
        """Up to `BATCH_RECORDS_MAX` records; waits for `READ_S` at most."""

    def write(self, copies: list[Copy], offsets: dict[int, int]) -> None:
        """Begins a transaction, and writes records and offsets, by partition, in it."""

    def commit(self) -> None:
        """Commits the transaction."""

    def abort(self) -> None:
        """Aborts the transaction, and goes back to where the group is."""

    def close(self) -> None:
        """Lets go of everything; raises nothing."""


class Copier:
    """The loop of one copier."""

    def __init__(self, spec: CopierSpec, connect: Callable[[CopierSpec], CopierClient]):
        self._spec = spec
        self._connect = connect
        self._chance = random.Random(spec.seed)
        self._ending = False

    def end(self, _signal: int, _frame: FrameType | None) -> None:
        self._ending = True

    def run(self) -> None:
        while not self._ending:
            client: CopierClient | None = None
            try:
                client = self._connect(self._spec)
                print("ready", flush=True)
                while not self._ending:
                    self._copy(client)
            except Fenced:
                print("fenced", flush=True)
                sys.exit(FENCED_CODE)
            except Exception:  # noqa: BLE001 - whatever it is, new clients go on
                traceback.print_exc()
            if client is not None:
                client.close()

    def _copy(self, client: CopierClient) -> None:
        copies = client.read()
        if not copies:
            return
        client.write(copies, {each.partition: each.offset + 1 for each in copies})
        if self._chance.random() < ABORT_CHANCE:
            client.abort()
        else:
            client.commit()


def run_copier(connect: Callable[[CopierSpec], CopierClient]) -> None:
    """Runs a copier by the specification in the first argument, until SIGTERM."""
    copier = Copier(CopierSpec(**json.loads(sys.argv[1])), connect)
    signal.signal(signal.SIGTERM, copier.end)
    copier.run()
