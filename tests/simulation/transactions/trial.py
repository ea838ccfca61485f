"""One simulated cluster with transactions in trouble, from a seed.

Two brokers, three coordinators and some writers live for some seconds of faults; then everything is mended, the
writers come to their end, and what is left has the time that the longest transaction may take. What a seed does is
the same each time.
"""

import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

import structlog
from kio.index import load_request_schema

from ottla_broker.groups import relay
from ottla_core import slices
from ottla_group_coordinator import coordinator
from ottla_group_coordinator.runtime import shard_loading, shard_runtime
from tests.simulation.network import Network
from tests.simulation.schedule import Schedule
from tests.simulation.transactions.checker import Reader, problems_at_last, problems_meanwhile
from tests.simulation.transactions.control import Control
from tests.simulation.transactions.processes import (
    RunningClock,
    ShellProcess,
    SimulatedBroker,
    SimulatedCoordinator,
    simulated_uuid,
)
from tests.simulation.transactions.streams import Stream
from tests.simulation.transactions.writers import Notes, Writer
from tests.support.clients.raw_client import decode_response, encode_request, response_type_of
from tests.support.clients.right_probes import made

BROKERS, COORDINATORS = (1, 2), (1, 2, 3)
WRITERS_MAX = 6
TROUBLE_FROM_MS, TROUBLE_UNTIL_MS = 2_000.0, 20_000.0
FAULT_PAUSE_MS = (100.0, 2_500.0)
FAULT_LENGTH_MS = (100.0, 5_000.0)
OVER_AT_MS = 24_000.0
END_MS = 75_000.0
"""By then the longest transaction has timed out, and whoever asked for anything has been answered or has given up."""
LOOK_EACH_MS = 1_000.0
TRACE_LINES = 60
MEMORY_DISK = Path("/dev/shm")


FAULTS: Final = (
    "kill",
    "kill",
    "pause",
    "pause",
    "cut",
    "cut",
    "move",
    "move_behind_a_cut",
    "pause_writer",
)
"""What may go wrong, each as often as it stands here."""


class TransactionsViolated(AssertionError):
    """A rule of transactions was broken.

    Attributes:
        problems: what is wrong.
    """

    def __init__(self, seed: int, problems: list[str], trace: list[str]) -> None:
        self.problems = problems
        lines = "\n".join(trace)
        super().__init__(
            f"seed {seed}: {'; '.join(problems[:5])}\n(python -m tests.simulation.transactions {seed})\n{lines}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened in a run.

    Attributes:
        transactions: that were begun.
        committed: whose commit was confirmed.
        aborted: likewise.
        faults: what went wrong on purpose.
        shards_moved: how often a shard got another owner.
        trace_hash: tells runs apart.
    """

    transactions: int
    committed: int
    aborted: int
    faults: int
    shards_moved: int
    trace_hash: str


class TransactionTrial:
    """A cluster, and what happens to it.

    Args:
        seed: says everything else.
        directory: for the brokers' logs.
        often: names of the faults of which half of all are to be, as in `FAULTS`.
        version: of the protocol, of all writers; None: as the seed says for each.
    """

    def __init__(self, seed: int, directory: Path, often: Sequence[str] = (), version: int | None = None) -> None:
        self.schedule = Schedule(seed)
        self.network = Network(self.schedule)
        self.control = Control(self.schedule, list(BROKERS))
        self.notes = Notes()
        self.faults = 0
        self.brokers = {
            each: SimulatedBroker(each, self.schedule, self.network, self.control, directory / str(each))
            for each in BROKERS
        }
        self.coordinators = [
            SimulatedCoordinator(each, self.schedule, self.network, self.control) for each in COORDINATORS
        ]
        count = self.schedule.random.randint(3, WRITERS_MAX)
        self.writers = [
            Writer(
                number,
                f"id-{number // 2 if self.schedule.chance(0.6) else number + 10}",
                self.schedule,
                self.network,
                self.brokers,
                self.notes,
                self.control.unexpected,
            )
            for number in range(count)
        ]
        self._often = often
        if version is not None:
            for writer in self.writers:
                writer.version = version
        self._reader = Reader()
        for broker in self.brokers.values():
            broker.directory.mkdir(parents=True)

    @property
    def servers(self) -> list[ShellProcess]:
        """Brokers and coordinators."""
        return [*self.brokers.values(), *self.coordinators]

    @property
    def everyone(self) -> list[ShellProcess | Writer]:
        """Every process that has event loops."""
        return [*self.servers, *self.writers]

    def run(self) -> Outcome:
        """Let it all happen.

        Raises:
            TransactionsViolated: a rule was broken.
        """
        self.control.watch(self.servers)
        for process in self.everyone:
            process.start()
        self.schedule.after(TROUBLE_FROM_MS, self.network.make_trouble)
        self.schedule.after(TROUBLE_FROM_MS, self._next_fault)
        self.schedule.after(TROUBLE_UNTIL_MS + FAULT_LENGTH_MS[1], self._mend)
        self.schedule.after(OVER_AT_MS, self._be_over)
        self.schedule.after(LOOK_EACH_MS, self._look)
        try:
            self.schedule.run_until(END_MS, self._check_failures)
            self._check_at_last()
        finally:
            for process in self.everyone:
                if process.is_running:
                    process.kill()
                for loop in process.loops:
                    loop.abandon()
        told = [each.told for each in self.notes.transactions.values()]
        return Outcome(
            transactions=len(told),
            committed=told.count(True),
            aborted=told.count(False),
            faults=self.faults,
            shards_moved=self.control.shards_moved,
            trace_hash=self.schedule.trace_hash(),
        )

    # What goes wrong.

    def _next_fault(self) -> None:
        if self.schedule.now_ms > TROUBLE_UNTIL_MS:
            return
        names = self._often if self._often and self.schedule.chance(0.5) else FAULTS
        getattr(self, f"_{self.schedule.random.choice(names)}")()
        self.faults += 1
        self.schedule.after(self.schedule.between(*FAULT_PAUSE_MS), self._next_fault)

    def _kill(self) -> None:
        process = self.schedule.random.choice(self.servers)
        if process.is_running:
            process.kill()
            self.schedule.after(self.schedule.between(100.0, 3_000.0), self._start, process, process.life)

    def _start(self, process: ShellProcess, life: int) -> None:
        if not process.is_running and process.life == life:
            process.start()

    def _pause(self) -> None:
        self._pause_one(self.schedule.random.choice(self.servers))

    def _pause_writer(self) -> None:
        self._pause_one(self.schedule.random.choice(self.writers))

    def _pause_one(self, process: ShellProcess | Writer) -> None:
        if process.is_running and not process.is_paused:
            process.pause()
            self.schedule.after(self.schedule.between(*FAULT_LENGTH_MS), self._resume, process, process.life)

    def _resume(self, process: ShellProcess | Writer, life: int) -> None:
        if process.is_running and process.is_paused and process.life == life:
            process.resume()

    def _cut(self) -> None:
        source, target = self.schedule.random.sample([each.name for each in self.everyone], 2)
        both = self.schedule.chance(0.6)
        for here, there in ((source, target), (target, source))[: 1 + both]:
            self.schedule.note("network", "{} does not reach {}", here, there)
            self.network.cut(here, there)
            self.schedule.after(self.schedule.between(*FAULT_LENGTH_MS), self.network.mend, here, there)

    def _move(self) -> None:
        self.control.move_a_shard()

    def _move_behind_a_cut(self) -> None:
        """Have what an owner sends to a broker come late, when its shards are others' already."""
        owner = self.schedule.random.choice(self.coordinators)
        broker = self.schedule.random.choice(list(self.brokers.values()))
        self.schedule.note("network", "{} does not reach {}, and is relieved", owner.name, broker.name)
        self.network.cut(owner.name, broker.name)
        self.schedule.after(self.schedule.between(1_000.0, 7_000.0), self.network.mend, owner.name, broker.name)
        self.schedule.after(self.schedule.between(5.0, 500.0), self.control.relieve, owner.id)

    def _mend(self) -> None:
        self.schedule.note("trial", "everything is mended")
        self.network.heal()
        for process in self.everyone:
            if not process.is_running:
                process.start()
            elif process.is_paused:
                process.resume()

    def _be_over(self) -> None:
        self.notes.is_over = True

    # What must hold.

    def _look(self) -> None:
        running = {
            name: log for broker in self.brokers.values() if broker.is_running for name, log in broker.logs.items()
        }
        self._fail_on(list(problems_meanwhile(self._reader.read(running), self.notes)))
        self.schedule.after(LOOK_EACH_MS, self._look)

    def _check_failures(self) -> None:
        if self.control.failures:
            who, error = self.control.failures[0]
            raise AssertionError(f"seed {self.schedule.seed}: {who} failed: {error!r}") from error

    def _check_at_last(self) -> None:
        logs = {name: log for broker in self.brokers.values() for name, log in broker.logs.items()}
        self._fail_on(list(problems_at_last(self._reader.seen, self.notes, logs, self._offsets())))

    def _offsets(self) -> dict[str, int]:
        """Ask for the offsets of the groups, as a client does."""
        found: dict[str, int] = {}
        for transactional_id in sorted({writer.transactional_id for writer in self.writers}):
            message = made(
                load_request_schema(9, 7),
                {"group_id": f"group-{transactional_id}", "topics": None, "require_stable": True},
            )
            answers: list[bytes] = []
            self.brokers[1].deliver(self.brokers[1].handle, (encode_request(message, 1), answers.append))
            self.schedule.run_until(self.schedule.now_ms + 1_000.0, self._check_failures)
            assert answers, "the coordinator of groups does not answer"
            response = decode_response(answers[0], response_type_of(message))[1]
            for topic in response.topics:
                for partition in topic.partitions:
                    found[transactional_id] = partition.committed_offset
        return found

    def _fail_on(self, problems: list[str]) -> None:
        if problems:
            raise TransactionsViolated(self.schedule.seed, problems, self.schedule.trace_lines(TRACE_LINES))


@contextmanager
def surroundings() -> Iterator[Path]:
    """Yield a folder for logs; meanwhile streams and clocks are simulated, and nothing is logged."""
    where = MEMORY_DISK if MEMORY_DISK.is_dir() else None
    directory = Path(tempfile.mkdtemp(prefix="ottla-transactions-", dir=where))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.enter_context(patch.object(relay, "CoordinatorStream", Stream))
        for module in (shard_runtime, shard_loading):
            stack.enter_context(patch.object(module, "time", RunningClock))
        stack.enter_context(patch.object(slices, "perf_counter", RunningClock.perf_counter))
        stack.enter_context(patch.object(coordinator, "uuid4", simulated_uuid))
        former = structlog.get_config()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        stack.callback(structlog.configure, **former)
        yield directory


def simulate(seed: int, often: Sequence[str] = (), version: int | None = None) -> Outcome:
    """Run a seed; the arguments are as of `TransactionTrial`.

    Raises:
        TransactionsViolated: a rule was broken.
    """
    with surroundings() as directory:
        return TransactionTrial(seed, directory, often, version).run()
