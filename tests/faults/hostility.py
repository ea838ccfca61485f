"""Hostile clients in a trial: a process per fault, in the part of the network where the honest clients are."""

import json
import sys
from collections import Counter
from pathlib import Path

from tests.faults.cluster import python_environment
from tests.faults.fault import CLIENTS, Fault
from tests.faults.network import Network
from tests.support.child_process import ChildDied, ChildProcess


class HostileClients:
    """All hostile clients of a trial.

    Attributes:
        problems: clients that did not behave as badly as they should.
        counts: how much they did, by behaviour.
    """

    def __init__(self, directory: Path, network: Network, bootstrap: str, *, seed: int):
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self._directory = directory
        self._network = network
        self._bootstrap = bootstrap
        self._seed = seed
        self._at_work: dict[Fault, ChildProcess] = {}

    def begin(self, fault: Fault) -> None:
        """Lets some loose."""
        name = f"hostile-{len(self._at_work)}"
        command = [
            *(sys.executable, "-m", "tests.faults.load_programs.hostile_clients", "--bootstrap", self._bootstrap),
            *(
                "--behaviours",
                fault.wanted,
                "--seed",
                f"{self._seed} {fault.from_s}",
                "--notes",
                str(self._notes(name)),
            ),
        ]
        client = ChildProcess(
            name,
            self._network.inside(CLIENTS, command),
            log=self._directory / f"{name}.log",
            env=python_environment(),
        )
        self._at_work[fault] = client
        client.start()

    def end(self, fault: Fault) -> None:
        """Has them go."""
        client = self._at_work[fault]
        try:
            client.check_running()
            client.stop()
        except ChildDied as error:
            self.problems.append(str(error))
        notes = self._notes(client.name)
        done = Counter(json.loads(notes.read_text())) if notes.exists() else Counter[str]()
        self.counts += done
        for behaviour in fault.wanted.split(", "):
            if not done[behaviour]:
                self.counts[f"{behaviour} in vain"] += 1

    def close(self) -> None:
        """Ends those that are left."""
        for client in self._at_work.values():
            client.kill()

    def _notes(self, name: str) -> Path:
        return self._directory / f"{name}.notes"
