"""The load of a trial of transactions: writers and readers, each a process of its own in the clients' network."""

import time
from collections import Counter
from pathlib import Path

from tests.faults.load import LoadPrograms, stop_programs
from tests.faults.network import Network
from tests.faults.topics import PARTITIONS, Keeps, LoadTopic
from tests.faults.transactions.transaction_history import COMMITTED, Contents, IsolatedReaderHistory, WriterHistory
from tests.support.child_process import ChildProcess
from tests.support.eventually import NotInTime, eventually

WRITTEN = (LoadTopic("debits", Keeps.EVERYTHING, {}), LoadTopic("credits", Keeps.EVERYTHING, {}))
TOPICS = WRITTEN
WRITERS = {"librdkafka": "transactional_writer", "librdkafka-too": "transactional_writer"}
READERS = {"committed": "read_committed", "everything": "read_uncommitted"}
CATCH_UP_DEADLINE_S = 20.0
LOOK_INTERVAL_S = 0.2


class TransactionLoad(LoadPrograms):
    """All programs of the load.

    Attributes:
        locked_up: readers that had to be started again, since librdkafka's may stop asking when brokers restart.
    """

    def __init__(self, directory: Path, network: Network, bootstrap: str, *, seed: int) -> None:
        super().__init__(directory, network)
        self.locked_up: list[str] = []
        where = ["--bootstrap", bootstrap, "--partitions", str(PARTITIONS)]
        written = [topic.name for topic in WRITTEN]
        self._writers: dict[str, ChildProcess] = {
            name: self._program(
                program,
                name,
                [
                    *(*where, "--topics", *written, "--name", name, "--transactional-id", name),
                    *("--seed", str(seed * len(WRITERS) + number)),
                ],
            )
            for number, (name, program) in enumerate(WRITERS.items())
        }
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

    def stop_writers(self) -> None:
        """Stops them; returns when each has ended its last transaction."""
        stop_programs(list(self._writers.values()))

    def stop_readers(self, final: dict[str, Contents]) -> None:
        """Stops them when they have come to the end; one that does not get there begins anew once."""
        for name, reader in self._readers.items():
            wanted = {place: len(records) for place, records in final[name].items()}
            if not self._comes_to(name, wanted):
                self.locked_up.append(name)
                reader.kill()
                reader.start()
                self._comes_to(name, wanted)
        stop_programs(list(self._readers.values()))

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
        return [*self._writers.values(), *self._readers.values()]
