"""Transactions at the source of a trial of mirrors, and a reader of committed records at the target.

Each transaction has records in the topic that is copied and in the one that a link follows. Some are aborted, left to
their time-out, or taken over by another producer.
"""

import signal
import time
from collections import Counter
from pathlib import Path

from tests.faults.access.rights import Rights, may_read, may_transact, may_write
from tests.faults.cluster import Cluster
from tests.faults.load import LoadPrograms, stop_programs
from tests.faults.network import Network
from tests.faults.topics import LEDGER, LEDGERS, LINKED_LEDGER, PARTITIONS, copy_name
from tests.faults.transactions.transaction_history import COMMITTED, Contents, IsolatedReaderHistory, WriterHistory
from tests.faults.transactions.transaction_load import LIBRDKAFKAS, LOCK_UPS_MAX
from tests.support.child_process import ChildProcess
from tests.support.eventually import NotInTime, eventually

WRITERS = {"ledger-writer": "transactional_writer", "raw-ledger-writer": "raw_transactional_writer"}
"""Programs of `load_programs`; each has a transactional id of its name."""
READER = "ledger-reader"
RATE = 4.0
"""Transactions a second of each writer, at most."""
FIRST_TRANSACTIONS = 3
COMMITS_DEADLINE_S = 90.0
CATCH_UP_DEADLINE_S = 30.0
LOOK_INTERVAL_S = 0.2
MIRRORED_LEDGERS = (copy_name(LEDGER.name), LINKED_LEDGER.name)
"""The topics of the target."""
_WRITTEN = [topic.name for topic in LEDGERS]


def source_rights_of_ledgers() -> Rights:
    """What the writers may do at the source; they read committed records of what they write as well."""
    return {
        name: [*may_read(name, _WRITTEN), *may_write(name, _WRITTEN), *may_transact(name, name)] for name in WRITERS
    }


def target_rights_of_ledgers() -> Rights:
    """What the reader may do at the target."""
    return {READER: may_read(READER, MIRRORED_LEDGERS)}


class LedgerLoad(LoadPrograms):
    """The writers and the reader."""

    def __init__(self, directory: Path, network: Network, *, source: Cluster, target: Cluster, seed: int) -> None:
        super().__init__(directory, network, source.clients)
        self._lock_ups = 0
        self._writers = {
            name: self._program(
                program,
                name,
                [
                    *("--bootstrap", source.bootstrap, "--partitions", str(PARTITIONS), "--topics", *_WRITTEN),
                    *("--name", name, "--transactional-id", name, "--seed", f"{seed}{number}", "--rate", str(RATE)),
                ],
            )
            for number, (name, program) in enumerate(WRITERS.items())
        }
        self._readers = {
            READER: self._program(
                "isolated_reader",
                READER,
                [
                    *("--bootstrap", target.bootstrap, "--partitions", str(PARTITIONS)),
                    *("--topics", *MIRRORED_LEDGERS, "--name", READER, "--isolation", "read_committed"),
                ],
                clients=target.clients,
            )
        }

    @property
    def _programs(self) -> list[ChildProcess]:
        return [*self._writers.values(), *self._readers.values()]

    def check(self) -> None:
        """Starts programs of librdkafka anew that have locked up or crashed; raises if another one has ended."""
        for name, writer in self._writers.items():
            may_end = WRITERS[name] in LIBRDKAFKAS and self._lock_ups < LOCK_UPS_MAX
            if may_end and writer.restart_after(signal.SIGSEGV, signal.SIGABRT):
                self._lock_ups += 1
        super().check()

    def written(self) -> WriterHistory:
        """What the writers have noted so far."""
        history = WriterHistory()
        for name in self._writers:
            with self._notes_of(name).open() as notes:
                history.add(notes)
        return history

    def seen(self) -> IsolatedReaderHistory:
        """What the reader has noted so far."""
        history = IsolatedReaderHistory(READER, is_committed=True)
        with self._notes_of(READER).open() as notes:
            history.add(notes)
        return history

    def wait_for_commits(self, what: str) -> None:
        """Waits until each writer has committed some transactions more."""
        before = self._commits()

        def all_have() -> bool:
            self.check()
            time.sleep(LOOK_INTERVAL_S)  # between two looks; there is a deadline
            now = self._commits()
            return all(now[name] >= before[name] + FIRST_TRANSACTIONS for name in self._writers)

        eventually(all_have, what, within_s=COMMITS_DEADLINE_S)

    def _commits(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for name in self._writers:
            with self._notes_of(name).open() as notes:
                counts[name] = sum(each.startswith(f"{COMMITTED}\t") for each in notes)
        return counts

    def stop_writers(self) -> None:
        """Stops them; returns when each has ended its last transaction, or left it to its time-out."""
        stop_programs(list(self._writers.values()))

    def stop_reader(self, final: Contents) -> None:
        """Stops it when it has come to the end; if it does not get there it begins anew once."""
        reader = self._readers[READER]
        if not self._comes_to(final):
            reader.kill()
            reader.start()
            self._comes_to(final)
        stop_programs([reader])

    def _comes_to(self, final: Contents) -> bool:
        def is_there() -> bool:
            time.sleep(LOOK_INTERVAL_S)  # between two looks; there is a deadline
            runs = self.seen().runs
            return all(len(runs[place][-1]) >= len(records) for place, records in final.items())

        try:
            eventually(is_there, f"{READER} has come to the end", within_s=CATCH_UP_DEADLINE_S)
        except NotInTime:
            return False
        return True
