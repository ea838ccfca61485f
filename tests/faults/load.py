"""The load of a trial: producers, readers and groups, each a process of its own in the clients' part of the network.

They note what happens in files, which are read when the faults are over. None of them is hurt itself, but for the
links between them and the cluster.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla_core.acls import AclBinding
from tests.faults import java_load
from tests.faults.access.rights import Rights, may_read, may_write
from tests.faults.access.secured_clients import SecuredClients
from tests.faults.cluster import python_environment
from tests.faults.committed_offsets import CommitEvent, CommitPlace
from tests.faults.fault import CLIENTS
from tests.faults.history import ProducerHistory, ReaderHistory
from tests.faults.network import Network
from tests.faults.topics import GROUP_LOAD_TOPIC, JAVA_TOPIC, LOAD_TOPICS, PARTITIONS, UNSURE_TOPIC, Keeps, names_of
from tests.support.child_process import ChildProcess
from tests.support.groups.group_load import GROUP_PREFIX

PRODUCERS = 3
CARELESS = "careless-producer"
"""Content with one replica's acknowledgement."""
READERS: dict[str, str | None] = {"reader": None, "reader-in-rack-b": "b"}
READER_CRASHES_MAX = 5
"""In a trial: librdkafka (2.16) has crashed in an hour of this. The reader begins anew, and sees everything again."""
STOP_DEADLINE_S = 150.0
GROUPS = "groups"
REFUSED = re.compile(
    r"AUTHORIZATION_FAILED|_AUTHENTICATION\b|AuthorizationException|AuthenticationException"
    r"|authori[sz]ation failed|authentication (?:error|failed|failure)(?!.*Local: (?:Broker transport|Timed out))",
    re.IGNORECASE,
)
"""In librdkafka's words, those of Kafka's own clients, and ours. A login whose connection breaks is not refused."""
REFUSALS_SHOWN_MAX = 3
JAVA_CODE = java_load.STOPPED_BY_SIGTERM


class LoadPrograms:
    """Programs that note what happens; leaving it kills those that still run."""

    def __init__(self, directory: Path, network: Network, clients: SecuredClients | None = None) -> None:
        """See the class.

        Args:
            directory: where they note it.
            network: in which they have a part of their own.
            clients: the users as whom they log in, each by its own name; None where nobody logs in.
        """
        self._directory = directory
        self._network = network
        self._clients = clients
        self._readers: dict[str, ChildProcess] = {}
        self._reader_crashes = 0
        directory.mkdir(parents=True, exist_ok=True)

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
        """Starts readers anew that have crashed; raises if another program has ended."""
        for reader in self._readers.values():
            if self._reader_crashes < READER_CRASHES_MAX and reader.restart_after(signal.SIGSEGV, signal.SIGABRT):
                self._reader_crashes += 1
                print(f"{reader.name} has crashed and begins anew", flush=True)
        for program in self._programs:
            program.check_running()

    @property
    def _programs(self) -> list[ChildProcess]:
        """All of them."""
        return list(self._readers.values())

    def _read(self, reader: str) -> ReaderHistory:
        """What a reader has noted so far."""
        history = ReaderHistory(reader)
        with self._notes_of(reader).open() as notes:
            history.add(notes)
        return history

    def _notes_of(self, name: str) -> Path:
        return self._directory / f"{name}.notes"

    def _program(
        self, program: str, name: str, arguments: Sequence[str], *, clients: SecuredClients | None = None
    ) -> ChildProcess:
        """A program that logs in by its name, as a user of the load's cluster or of another one."""
        notes = self._notes_of(name)
        notes.touch()
        users = clients or self._clients
        # An option that is given twice is what it is last: with logins there are other addresses.
        access = (
            [] if users is None else ["--bootstrap", users.bootstrap_of(name), "--access", str(users.file_of(name))]
        )
        module = f"tests.faults.load_programs.{program}"
        command = [sys.executable, "-m", module, *arguments, *access, "--notes", str(notes)]
        return ChildProcess(
            name,
            self._network.inside(CLIENTS, command),
            log=self._directory / f"{name}.log",
            env=python_environment(),
        )

    def refusals(self) -> list[str]:
        """What programs were refused, though each has the rights that it needs."""
        return [
            f"{file.stem} was refused what it may do: {line.strip()[:300]}"
            for file in sorted((*self._directory.glob("*.notes"), *self._directory.glob("*.log")))
            for line in refused_lines(file.read_text(errors="replace"))
        ]

    def _kill(self) -> None:
        for program in self._programs:
            program.kill()


def load_rights() -> Rights:
    """What each program of a `Load` may do, and its part of Kafka's clients."""
    topics = [topic.name for topic in LOAD_TOPICS]
    return {
        **{name: may_write(name, topics) for name in (f"producer-{number}" for number in range(PRODUCERS))},
        CARELESS: may_write(CARELESS, [UNSURE_TOPIC.name]),
        **{name: may_read(name, topics) for name in READERS},
        GROUPS: rights_of_groups(),
        java_load.PRODUCER: may_write(java_load.PRODUCER, [JAVA_TOPIC.name]),
        java_load.CONSUMER: may_read(java_load.CONSUMER, [JAVA_TOPIC.name], group=java_load.GROUP),
    }


def rights_of_groups() -> list[AclBinding]:
    """What the members of groups may do, who also write what they read."""
    topics = [GROUP_LOAD_TOPIC]
    return [*may_write(GROUPS, topics), *may_read(GROUPS, topics, group=GROUP_PREFIX, prefixed=True)]


def refused_lines(text: str) -> Iterator[str]:
    """The first lines of a program's notes or log that tell of a refused login or right. Pure."""
    return islice((line for line in text.splitlines() if REFUSED.search(line)), REFUSALS_SHOWN_MAX)


class Load(LoadPrograms):
    """All programs of a trial with one cluster."""

    def __init__(
        self,
        directory: Path,
        network: Network,
        bootstrap: str,
        *,
        groups: bool,
        java: bool,
        seed: int,
        clients: SecuredClients | None = None,
    ):
        super().__init__(directory, network, clients)
        topics = [topic.name for topic in LOAD_TOPICS]
        where = ["--bootstrap", bootstrap]
        self._producers = {
            f"producer-{number}": self._program(
                "numbered_producer",
                f"producer-{number}",
                [
                    *(*where, "--topics", *topics, "--growing", *names_of(Keeps.LAST_VALUES)),
                    *("--number", str(number), "--seed", str(seed * PRODUCERS + number)),
                ],
            )
            for number in range(PRODUCERS)
        }
        self._producers[CARELESS] = self._program(
            "numbered_producer",
            CARELESS,
            [
                *(*where, "--topics", UNSURE_TOPIC.name, "--acks", "1", "--rate", "50"),
                *("--number", str(PRODUCERS), "--seed", str(seed)),
            ],
        )
        self._readers = {
            name: self._program(
                "independent_reader",
                name,
                [
                    *(*where, "--topics", *topics, "--partitions", str(PARTITIONS), "--name", name),
                    *("--forgetful", *names_of(Keeps.NEWEST)),
                    *(() if rack is None else ("--rack", rack)),
                ],
            )
            for name, rack in READERS.items()
        }
        self._java = {
            name: ChildProcess(
                name, network.inside(CLIENTS, command), log=directory / f"{name}.log", env=python_environment()
            )
            for name, command in (java_load.commands(directory, bootstrap, clients) if java else {}).items()
        }
        self._groups = None
        if groups:
            self._groups = self._program(
                "group_members", GROUPS, [*where, "--topic", GROUP_LOAD_TOPIC, "--partitions", str(PARTITIONS)]
            )

    def produced(self) -> ProducerHistory:
        """What the producers have noted so far."""
        history = ProducerHistory()
        for name in self._producers:
            with self._notes_of(name).open() as notes:
                history.add(notes)
        if java_load.PRODUCER in self._java:
            with self._java[java_load.PRODUCER].log.open() as printed:
                history.add(java_load.producer_notes(printed))
        return history

    def seen(self) -> list[ReaderHistory]:
        """What the readers have noted so far."""
        histories = [self._read(name) for name in self._readers]
        if java_load.CONSUMER in self._java:
            history = ReaderHistory(java_load.CONSUMER, is_in_order=False)
            with self._java[java_load.CONSUMER].log.open() as printed:
                history.add(java_load.consumer_notes(printed))
            histories.append(history)
        return histories

    def stop_producers(self) -> None:
        """Stops them; returns when every record has been answered or given up."""
        stop_programs(list(self._producers.values()))
        stop_programs([each for name, each in self._java.items() if name == java_load.PRODUCER], JAVA_CODE)

    def stop_readers(self) -> None:
        """Stops them."""
        stop_programs(list(self._readers.values()))
        stop_programs([each for name, each in self._java.items() if name == java_load.CONSUMER], JAVA_CODE)

    def stop_groups(self) -> tuple[list[str], list[CommitEvent]]:
        """Stops the groups; what was wrong with them, and what they were told about committed offsets."""
        if self._groups is None:
            return [], []
        stop_programs([self._groups])
        answer = json.loads(self._notes_of(self._groups.name).read_text())
        events = [CommitEvent(CommitPlace(*event[:2]), *event[2:]) for event in answer["events"]]
        return [f"groups: {problem}" for problem in answer["problems"]], events

    @property
    def _programs(self) -> list[ChildProcess]:
        groups = [] if self._groups is None else [self._groups]
        return [*self._producers.values(), *self._readers.values(), *self._java.values(), *groups]


def stop_programs(programs: Sequence[ChildProcess], expected: int = 0) -> None:
    """Stops programs side by side.

    Raises:
        AssertionError: one did not end, or not well.
    """
    for program in programs:
        program.check_running()
        os.kill(program.pid, signal.SIGTERM)
    for program in programs:
        code = program.wait(within_s=STOP_DEADLINE_S)
        assert code == expected, f"{program.name} ended with exit code {code}: {program.log_tail()}"
