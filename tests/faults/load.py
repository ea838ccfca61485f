"""The load of a trial: producers, readers and groups, each a process of its own in the clients' part of the network.

They note what happens in files, which are read when the faults are over. None of them is hurt itself, but for the
links between them and the cluster.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.cluster import python_environment
from tests.faults.committed_offsets import CommitEvent, CommitPlace
from tests.faults.fault import CLIENTS
from tests.faults.history import ProducerHistory, ReaderHistory
from tests.faults.network import Network
from tests.support.child_process import ChildProcess

PRODUCERS = 3
READERS: dict[str, str | None] = {"reader": None, "reader-in-rack-b": "b"}
STOP_DEADLINE_S = 150.0


class Load:
    """All programs; leaving it kills those that still run.

    Attributes:
        topics: what producers write to and readers read.
    """

    def __init__(
        self,
        directory: Path,
        network: Network,
        bootstrap: str,
        *,
        topics: Sequence[str],
        partitions: int,
        group_topic: str | None,
        seed: int,
    ):
        self.topics = list(topics)
        self._directory = directory
        self._network = network
        directory.mkdir(parents=True, exist_ok=True)
        where = ["--bootstrap", bootstrap]
        self._producers = {
            f"producer-{number}": self._program(
                "numbered_producer",
                f"producer-{number}",
                [*where, "--topics", *topics, "--number", str(number), "--seed", str(seed * PRODUCERS + number)],
            )
            for number in range(PRODUCERS)
        }
        self._readers = {
            name: self._program(
                "independent_reader",
                name,
                [
                    *(*where, "--topics", *topics, "--partitions", str(partitions), "--name", name),
                    *(() if rack is None else ("--rack", rack)),
                ],
            )
            for name, rack in READERS.items()
        }
        self._groups = None
        if group_topic is not None:
            self._groups = self._program(
                "group_members", "groups", [*where, "--topic", group_topic, "--partitions", str(partitions)]
            )

    def __enter__(self) -> Self:
        try:
            for program in self._programs:
                program.start()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def check(self) -> None:
        """Raises if a program has ended."""
        for program in self._programs:
            program.check_running()

    def produced(self) -> ProducerHistory:
        """What the producers have noted so far."""
        history = ProducerHistory()
        for name in self._producers:
            with self._notes_of(name).open() as notes:
                history.add(notes)
        return history

    def seen(self) -> list[ReaderHistory]:
        """What the readers have noted so far."""
        histories = []
        for name in self._readers:
            history = ReaderHistory(name)
            with self._notes_of(name).open() as notes:
                history.add(notes)
            histories.append(history)
        return histories

    def stop_producers(self) -> None:
        """Stops them; returns when every record has been answered or given up."""
        _stop(list(self._producers.values()))

    def stop_readers(self) -> None:
        """Stops them."""
        _stop(list(self._readers.values()))

    def stop_groups(self) -> tuple[list[str], list[CommitEvent]]:
        """Stops the groups; what was wrong with them, and what they were told about committed offsets."""
        if self._groups is None:
            return [], []
        _stop([self._groups])
        answer = json.loads(self._notes_of(self._groups.name).read_text())
        events = [CommitEvent(CommitPlace(*event[:2]), *event[2:]) for event in answer["events"]]
        return [f"groups: {problem}" for problem in answer["problems"]], events

    @property
    def _programs(self) -> list[ChildProcess]:
        groups = [] if self._groups is None else [self._groups]
        return [*self._producers.values(), *self._readers.values(), *groups]

    def _notes_of(self, name: str) -> Path:
        return self._directory / f"{name}.notes"

    def _program(self, program: str, name: str, arguments: Sequence[str]) -> ChildProcess:
        notes = self._notes_of(name)
        notes.touch()
        command = [sys.executable, "-m", f"tests.faults.load_programs.{program}", *arguments, "--notes", str(notes)]
        return ChildProcess(
            name,
            self._network.inside(CLIENTS, command),
            log=self._directory / f"{name}.log",
            env=python_environment(),
        )

    def _kill(self) -> None:
        for program in self._programs:
            program.kill()


def _stop(programs: Sequence[ChildProcess]) -> None:
    """Stops programs side by side.

    Raises:
        AssertionError: one did not end, or not well.
    """
    for program in programs:
        program.check_running()
        os.kill(program.pid, signal.SIGTERM)
    for program in programs:
        code = program.wait(within_s=STOP_DEADLINE_S)
        assert code == 0, f"{program.name} ended with exit code {code}: {program.log_tail()}"
