"""The load of a trial of transactions: writers and readers, each a process of its own in the clients' network."""

import signal
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from ottla_core.acls import AclBinding
from tests.faults.access.mechanisms import OUR_OWN
from tests.faults.access.rights import GROUP_OF_READERS, Rights, may_look, may_read, may_transact, may_write
from tests.faults.access.secured_clients import Abilities, SecuredClients
from tests.faults.load import LoadPrograms, stop_programs
from tests.faults.load_programs.group_copier import GROUP
from tests.faults.network import Network
from tests.faults.topics import PARTITIONS, Keeps, LoadTopic
from tests.faults.transactions.chain_checker import Stage
from tests.faults.transactions.stable_ends import receding_ends
from tests.faults.transactions.transaction_history import COMMITTED, Contents, IsolatedReaderHistory, WriterHistory
from tests.support.child_process import ChildProcess
from tests.support.eventually import NotInTime, eventually

WRITTEN = (LoadTopic("debits", Keeps.EVERYTHING, {}), LoadTopic("credits", Keeps.EVERYTHING, {}))
COPIES = LoadTopic("copies", Keeps.EVERYTHING, {})
RESULTS = LoadTopic("results", Keeps.EVERYTHING, {})
SHARES = LoadTopic("shares", Keeps.EVERYTHING, {})
TOPICS = (*WRITTEN, COPIES, RESULTS, SHARES)
STAGES = (
    Stage(group="copier", source=WRITTEN[0].name, target=COPIES.name),
    Stage(group="last-copier", source=COPIES.name, target=RESULTS.name),
    Stage(group=GROUP, source=WRITTEN[1].name, target=SHARES.name),
)


class WriterProgram(NamedTuple):
    """A program that writes transactions.

    Attributes:
        program: of `load_programs`.
        transactional_id: which another one may have, too; they take it from each other.
        topics: that it writes, or reads and writes.
        patient: how many writers it is that leave their transactions open a while, if it is such.
    """

    program: str
    transactional_id: str
    topics: tuple[str, ...]
    patient: int = 0


_WRITTEN = tuple(topic.name for topic in WRITTEN)
WRITERS = {
    "librdkafka": WriterProgram("transactional_writer", "librdkafka", _WRITTEN),
    "librdkafka-too": WriterProgram("transactional_writer", "librdkafka-too", _WRITTEN),
    "raw": WriterProgram("raw_transactional_writer", "raw", _WRITTEN),
    "patient": WriterProgram("raw_transactional_writer", "patient", _WRITTEN, patient=4),
    "rival": WriterProgram("raw_transactional_writer", "contested", _WRITTEN),
    "other-rival": WriterProgram("raw_transactional_writer", "contested", _WRITTEN),
}
COPIERS = {
    "copier": WriterProgram("raw_copier", STAGES[0].group, STAGES[0][1:]),
    "copiers-rival": WriterProgram("raw_copier", STAGES[0].group, STAGES[0][1:]),
    "last-copier": WriterProgram("raw_copier", STAGES[1].group, STAGES[1][1:]),
    "member": WriterProgram("group_copier", "member", STAGES[2][1:]),
    "other-member": WriterProgram("group_copier", "other-member", STAGES[2][1:]),
}
LIBRDKAFKAS = frozenset({"transactional_writer", "group_copier"})
LOCK_UPS_MAX = 6
"""In a trial."""
WATCHER = "watcher"
ABILITIES: Abilities = {
    WATCHER: OUR_OWN,
    **{name: OUR_OWN for name, each in {**WRITERS, **COPIERS}.items() if each.program not in LIBRDKAFKAS},
}
READERS = {"committed": "read_committed", "everything": "read_uncommitted"}
CATCH_UP_DEADLINE_S = 20.0
LOOK_INTERVAL_S = 0.2


def transaction_rights() -> Rights:
    """What each program of the load may do; writers read committed records of what they write as well."""
    rights: dict[str, list[AclBinding]] = {WATCHER: may_look(WATCHER, _WRITTEN)}
    for name, writer in {**WRITERS, **COPIERS}.items():
        read, written, group = writer.topics, writer.topics, GROUP_OF_READERS
        if name in COPIERS:
            read, written = writer.topics[:1], writer.topics[1:]
            group = GROUP if writer.program == "group_copier" else writer.transactional_id
        rights[name] = [
            *may_read(name, read, group=group),
            *may_write(name, written),
            *may_transact(name, writer.transactional_id, prefixed=writer.patient > 0),
        ]
    return rights | {name: may_read(name, [topic.name for topic in TOPICS]) for name in READERS}


class TransactionLoad(LoadPrograms):
    """All programs of the load.

    Attributes:
        locked_up: programs of librdkafka that had to be started again, as it may stop asking when brokers restart.
    """

    def __init__(
        self,
        directory: Path,
        network: Network,
        bootstrap: str,
        *,
        seed: int,
        only: Collection[str] | None = None,
        clients: SecuredClients | None = None,
    ) -> None:
        super().__init__(directory, network, clients)
        self.locked_up: list[str] = []
        where = ["--bootstrap", bootstrap, "--partitions", str(PARTITIONS)]
        self._writers: dict[str, ChildProcess] = {
            name: self._program(
                writer.program,
                name,
                [
                    *(*where, "--topics", *writer.topics, "--name", name),
                    *("--transactional-id", writer.transactional_id, "--seed", f"{seed}{number}"),
                    *("--patient", str(writer.patient)),
                ],
            )
            for number, (name, writer) in enumerate({**WRITERS, **COPIERS}.items())
            if only is None or name in only
        }
        self._watcher = self._program("stable_end_watcher", WATCHER, [*where, "--topics", *_WRITTEN])
        topics = [topic.name for topic in TOPICS]
        self._readers = {
            name: self._program(
                "isolated_reader", name, [*where, "--topics", *topics, "--name", name, "--isolation", isolation]
            )
            for name, isolation in READERS.items()
        }

    def written(self) -> WriterHistory:
        """What the writers have noted so far."""
        history = WriterHistory()
        for name in self._writers:
            with self._notes_of(name).open() as notes:
                history.add(notes)
        return history

    def check(self) -> None:
        """Starts programs of librdkafka anew that have locked up or crashed; raises if another one has ended."""
        self.revive()
        super().check()

    def revive(self) -> None:
        """Starts programs of librdkafka anew that have locked up or crashed."""
        programs = {**WRITERS, **COPIERS}
        for name, writer in self._writers.items():
            may_end = programs[name].program in LIBRDKAFKAS and len(self.locked_up) < LOCK_UPS_MAX
            if may_end and writer.restart_after(signal.SIGSEGV, signal.SIGABRT):
                self.locked_up.append(name)

    @property
    def writers(self) -> list[str]:
        """The names of all writers."""
        return list(self._writers)

    def committed_by_writer(self) -> Counter[str]:
        """How many transactions each writer has committed so far."""
        counts: Counter[str] = Counter()
        for name in self._writers:
            with self._notes_of(name).open() as notes:
                counts[name] = sum(each.startswith(f"{COMMITTED}\t") for each in notes)
        return counts

    def seen(self) -> list[IsolatedReaderHistory]:
        """What the readers have noted so far."""
        return [self._seen_by(name) for name in READERS]

    def _seen_by(self, name: str) -> IsolatedReaderHistory:
        history = IsolatedReaderHistory(name, is_committed=READERS[name] == "read_committed")
        with self._notes_of(name).open() as notes:
            history.add(notes)
        return history

    def receding_ends(self) -> list[str]:
        """Where the watcher was told of an end of committed records that goes back."""
        with self._notes_of(self._watcher.name).open() as notes:
            return list(receding_ends(notes))

    def stop_writers(self) -> None:
        """Stops those that write of themselves; returns when each has ended its last transaction."""
        stop_programs([each for name, each in self._writers.items() if name in WRITERS])

    def stop_copiers(self) -> None:
        """Stops the chain."""
        stop_programs([each for name, each in self._writers.items() if name in COPIERS])

    def stop_readers(self, final: dict[str, Contents]) -> None:
        """Stops them when they have come to the end; one that does not get there begins anew once."""
        for name, reader in self._readers.items():
            wanted = {place: len(records) for place, records in final[name].items()}
            if not self._comes_to(name, wanted):
                self.locked_up.append(name)
                reader.kill()
                reader.start()
                self._comes_to(name, wanted)
        stop_programs([*self._readers.values(), self._watcher])

    def _comes_to(self, name: str, wanted: dict[tuple[str, int], int]) -> bool:
        def is_there() -> bool:
            time.sleep(LOOK_INTERVAL_S)  # between two looks; there is a deadline
            runs = self._seen_by(name).runs
            return all(len(runs[place][-1]) >= count for place, count in wanted.items())

        try:
            eventually(is_there, f"{name} has come to the end", within_s=CATCH_UP_DEADLINE_S)
        except NotInTime:
            return False
        return True

    @property
    def _programs(self) -> list[ChildProcess]:
        return [*self._writers.values(), *self._readers.values(), self._watcher]
