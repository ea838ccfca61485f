"""A chain of stages, each a copier between two topics, which die and turn into zombies, as brokers do.

A stage's copier is killed, or paused while another takes its place and its transactional id, and then goes on as if
nothing had happened. At the end each topic of the chain must have the records of the first, in their order.
"""

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from tests.compat.exactly_once.cluster import make_topics, strikes_at
from tests.compat.exactly_once.copier_program import CopierSpec
from tests.compat.exactly_once.records import (
    CommittedReader,
    Feed,
    Feeder,
    Record,
    all_of,
    committed_records,
    nothing_is_open,
)
from tests.compat.exactly_once.strikes import Strikes, strike
from tests.support.child_process import ChildProcess
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.eventually import NotInTime, eventually

STAGES = 5
PARTITIONS = 2
RATE_PER_S = 30.0
START_DEADLINE_S = 180.0
ZOMBIES_DEADLINE_S = 60.0
ARRIVAL_DEADLINE_S = 240.0

Command = Callable[[CopierSpec], list[str]]
"""What starts a copier."""


def python_copier(module: str) -> Command:
    """A copier that is a module of this folder."""
    return lambda spec: [sys.executable, "-m", f"tests.compat.exactly_once.{module}", spec.to_json()]


class Stage:
    """One stage's place, where a copier works; those that had it before may still be about."""

    def __init__(self, spec: CopierSpec, command: Command, directory: Path):
        self.spec = spec
        self._command = command
        self._directory = directory
        self._started = 0
        self._worker = self._new()
        self._paused: list[ChildProcess] = []

    def kill(self) -> None:
        """SIGKILL to the copier; another takes its place."""
        self._worker.kill()
        self._worker = self._new()

    def pause(self) -> None:
        """Has another copier take the place of one that stands still for now."""
        _send(self._worker, signal.SIGSTOP)
        self._paused.append(self._worker)
        self._worker = self._new()

    def look(self) -> None:
        """Lets paused ones go on once their successors work, and replaces one that has ended."""
        if self._paused and self.is_ready():
            for each in self._paused:
                _send(each, signal.SIGCONT)
        if not self._worker.is_running():
            self._worker = self._new()

    def is_ready(self) -> bool:
        """Whether the copier has begun to work."""
        return "ready" in self._worker.log.read_text().splitlines()

    def has_zombies(self) -> bool:
        """Whether one that lost its place is still about."""
        return any(each.is_running() for each in self._paused)

    def end_zombies(self) -> int:
        """Kills those that lost their place; returns how many of them have ended by themselves before."""
        fenced = sum(not each.is_running() for each in self._paused)
        for each in self._paused:
            each.kill()
        self._paused.clear()
        return fenced

    def stop(self) -> None:
        """Has the copier end its transaction and leave."""
        self._worker.stop()

    def close(self) -> None:
        """Kills all."""
        self.end_zombies()
        self._worker.kill()

    def _new(self) -> ChildProcess:
        name = f"{self.spec.name}-{self._started}"
        self._started += 1
        worker = ChildProcess(name, self._command(self.spec), log=self._directory / f"{name}.log")
        worker.start()
        return worker


def _send(worker: ChildProcess, what: signal.Signals) -> None:
    """Send a signal to a process, unless it has ended: its number may be another's then."""
    if worker.is_running():
        os.kill(worker.pid, what)


class Chain:
    """The stages between the topics `topics`."""

    def __init__(self, cluster: OttlaCluster, command: Command, directory: Path, *, name: str, seed: int):
        self.topics = [f"{name}-{number}" for number in range(STAGES + 1)]
        self.stages = [
            Stage(
                CopierSpec(
                    bootstrap=cluster.bootstrap,
                    name=f"{name}-copier-{number}",
                    source=self.topics[number],
                    sink=self.topics[number + 1],
                    partitions=PARTITIONS,
                    seed=seed + number,
                ),
                command,
                directory,
            )
            for number in range(STAGES)
        ]

    def look(self) -> None:
        for stage in self.stages:
            stage.look()

    def is_ready(self) -> bool:
        """Whether a copier works in every place."""
        self.look()
        return all(stage.is_ready() for stage in self.stages)

    def has_zombies(self) -> bool:
        """Whether a copier that lost its place is still about."""
        self.look()
        return any(stage.has_zombies() for stage in self.stages)

    def strikes(self) -> Strikes:
        """What kills or pauses a stage's copier."""
        found: Strikes = {}
        for number, stage in enumerate(self.stages):
            found[f"copier {number}"] = stage.kill
            found[f"pause of copier {number}"] = stage.pause
        return found


@contextmanager
def running_chain(
    cluster: OttlaCluster, command: Command, directory: Path, *, name: str, seed: int
) -> Iterator[Chain]:
    """A chain whose copiers all work, and are ended after it."""
    make_topics(cluster, [f"{name}-{number}" for number in range(STAGES + 1)], PARTITIONS)
    chain = Chain(cluster, command, directory, name=name, seed=seed)
    try:
        for stage in chain.stages:
            eventually(stage.is_ready, f"{stage.spec.name} is ready", within_s=START_DEADLINE_S)
        yield chain
    finally:
        for stage in chain.stages:
            stage.close()


def run_under_strikes(cluster: OttlaCluster, chain: Chain, *, kills: int, seed: int) -> list[dict[int, list[Record]]]:
    """Feed the chain while processes die, and return what each topic has in the end."""
    chance = random.Random(seed)
    feeder = Feeder(cluster.bootstrap, feeds_of(chain.topics[0]), RATE_PER_S)
    feeder.start()
    struck = strike({**strikes_at(cluster), **chain.strikes()}, chance, kills, chain.look)
    eventually(chain.is_ready, "all copiers work again", within_s=START_DEADLINE_S)
    with suppress(NotInTime):  # they need not come across their successors
        eventually(lambda: not chain.has_zombies(), "zombies have ended", within_s=ZOMBIES_DEADLINE_S)
    feeder.stop()
    fenced = sum(stage.end_zombies() for stage in chain.stages)
    print(f"seed {seed}, {kills} strikes: {', '.join(struck)}; {fenced} zombies were fenced", file=sys.stderr)
    with CommittedReader(cluster.bootstrap, chain.topics[-1], PARTITIONS) as reader:

        def has_arrived() -> bool:
            chain.look()
            reader.read()
            return reader.count >= feeder.fed

        eventually(has_arrived, "all records have come to the end", within_s=ARRIVAL_DEADLINE_S)
    for stage in chain.stages:
        stage.stop()
    eventually(
        lambda: nothing_is_open(cluster.bootstrap, chain.topics, PARTITIONS), "no transaction is open", within_s=60
    )
    return [committed_records(cluster.bootstrap, topic, PARTITIONS) for topic in chain.topics]


def feeds_of(topic: str) -> Iterator[Feed]:
    """Numbered records without end, dealt to the partitions in turn."""
    for number in count():
        yield Feed(topic, number % PARTITIONS, Record(f"key {number % 7}", f"record {number}"))


def differences(contents: Sequence[dict[int, list[Record]]]) -> list[str]:
    """What is not as in the first topic; nothing if all are alike."""
    first = contents[0]
    found = []
    for number, content in enumerate(contents[1:], start=1):
        for partition, records in content.items():
            if records == first[partition]:
                continue
            lost, values = set(first[partition]) - set(records), all_of({partition: records})
            repeated = {each.value for each in values if values.count(each) > 1}
            found.append(
                f"topic {number}, partition {partition}: {len(records)} records of {len(first[partition])}; "
                f"lost {sorted(each.value for each in lost)[:5]}, repeated {sorted(repeated)[:5]}"
            )
    return found
