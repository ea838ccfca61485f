"""Changes of connectors and of their offsets while workers are killed and paused, and what must hold of them.

A round stops a source under load and changes its offsets at once; meanwhile other requests change a second source in
any order, and something happens to a worker. Requests go to any worker. What is checked:

- Offsets that were acknowledged stay as they are until the connector is resumed, and tasks go on right behind them.
- The configuration topic is the history of requests that came one after the other: each record is the one before it
  with a single change. Whatever was acknowledged is in it, once, and nothing that was refused.
"""

import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
from confluent_kafka import Consumer, TopicPartition

from ottla_connect.state.config_records import BadRecord, ConnectorRecord, decode
from tests.support.connect.connect_cluster import ConnectCluster, ConnectWorker
from tests.support.connect.connect_observer import ConnectObserver
from tests.support.eventually import NotInTime, eventually

CONFIG_TOPIC = "connect-configs"
REQUEST_TIMEOUT_S = 12.0
DEADLINE_S = 90.0
STORM_REQUESTS = 6
FAULT_AFTER_MAX_S = 1.0
TASKS = 2
SHORT_PAUSE_S = 1.5
LONG_PAUSE_S = 6.0
"""Longer than the workers' sessions."""


@dataclass
class Asked:
    """A request that was asked once: what it was to bring into the history, and how it was answered."""

    kind: str
    token: str
    outcome: str


@dataclass
class Changes:
    """The rounds, and what they have found.

    Attributes:
        connect: the workers.
        observer: reads what the sources write; every source has a topic of its own.
        sources: the settings of every source, by name.
        chance: decides.
        problems: what must not be.
        asked: all requests that change settings.
        counts: what happened how often.
        acknowledged_s: how long changes of offsets took, from the stop to the acknowledgement.
    """

    connect: ConnectCluster
    observer: ConnectObserver
    sources: Mapping[str, Mapping[str, str]]
    chance: random.Random
    problems: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    acknowledged_s: list[float] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def create(self) -> None:
        """Create all sources."""
        for name in self.sources:
            self._until_done(name, "put")
        for name in self.sources:
            self._await_tasks(name)

    def run_round(self) -> None:
        """Change two sources while something happens to a worker, and wait until all is as it was."""
        altered, changed = self.chance.sample(sorted(self.sources), 2)
        position = self.chance.choice([None, self.chance.randrange(10_000)])
        kinds = [self.chance.choice(sorted(KINDS)) for _ in range(STORM_REQUESTS)]
        fault, worker = self.chance.choice(FAULTS), self.chance.choice(self.connect.workers)
        after_s = self.chance.random() * FAULT_AFTER_MAX_S
        self.counts[f"fault: {fault.__name__}"] += 1
        healed = threading.Event()
        with ThreadPoolExecutor(STORM_REQUESTS + 2) as pool:
            work: list[Future[Any]] = [pool.submit(self._change_offsets, altered, position, healed)]
            work += [pool.submit(self._ask, changed, kind) for kind in kinds]
            threading.Event().wait(after_s)
            try:
                fault(worker)
            finally:
                healed.set()
            for each in work:
                each.result()
        self._until_done(changed, "put")
        self._until_done(changed, "resume")
        self._await_tasks(changed)

    # Offsets.

    def _change_offsets(self, name: str, position: int | None, healed: threading.Event) -> None:
        """Stop a source and change its offsets; look at them until it goes on, and where it goes on."""
        begun_s = time.monotonic()
        partitions = [{"list": number} for number in range(TASKS)]
        self._until_done(name, "stop")
        if position is None:
            wanted = []
            self._repeat("reset", lambda worker: self._send(worker, "DELETE", f"/connectors/{name}/offsets"))
        else:
            wanted = [{"partition": each, "offset": {"position": position}} for each in partitions]
            body = {"offsets": wanted}
            self._repeat("alter", lambda worker: self._send(worker, "PATCH", f"/connectors/{name}/offsets", body))
        self.acknowledged_s.append(time.monotonic() - begun_s)
        self._check_offsets(name, wanted, "when they were acknowledged")
        assert healed.wait(DEADLINE_S), "the fault is over"
        self._check_offsets(name, wanted, "after the fault")
        before = {each.pid for each in self.observer.appended if each.task.connector == name}
        self._until_done(name, "resume")
        expected = 0 if position is None else position + 1
        written: dict[int, set[int]] = {number: set() for number in range(TASKS)}

        def all_have_begun() -> bool:
            for each in list(self.observer.appended):
                if each.task.connector == name and each.pid not in before:
                    written[each.task.task].add(each.position)
            return all(expected in positions for positions in written.values())

        try:
            eventually(all_have_begun, f"{name} writes {expected}", within_s=DEADLINE_S)
        except NotInTime:
            self.problems.append(f"{name} never writes {expected}")
        # Partitions are read in any order, so the first that is seen need not be the first that was written.
        earliest = {number: min(positions, default=None) for number, positions in written.items()}
        if earliest != dict.fromkeys(range(TASKS), expected):
            self.problems.append(f"{name} goes on at {earliest} instead of {expected}")

    def _check_offsets(self, name: str, wanted: list[Any], when: str) -> None:
        found: list[Any] = []

        def read(worker: ConnectWorker) -> str:
            answer = self._request(worker, "GET", f"/connectors/{name}/offsets", None)
            if answer is None or not answer.is_success:
                return "unknown"
            found[:] = sorted(answer.json()["offsets"], key=lambda each: str(each["partition"]))
            return "done"

        self._repeat("read", read)
        if found != wanted:
            self.problems.append(f"{when}, the offsets of {name} are {found} instead of {wanted}")

    # Requests.

    def _ask(self, name: str, kind: str) -> str:
        """Ask once, of any worker; returns done, refused, or unknown."""
        token = f"{kind}-{next(self._numbers)}"
        method, path, body = KINDS[kind](name, token, self.sources[name])
        outcome = self._send(self._any_worker(), method, path, body)
        self.asked.append(Asked(kind, token, outcome))
        self.counts[f"{kind}: {outcome}"] += 1
        return outcome

    def _until_done(self, name: str, kind: str) -> None:
        eventually(lambda: self._ask(name, kind) == "done", f"{kind} of {name} is done", within_s=DEADLINE_S)

    def _repeat(self, kind: str, ask: Callable[[ConnectWorker], str]) -> None:
        def is_done() -> bool:
            outcome = ask(self._any_worker())
            self.counts[f"{kind}: {outcome}"] += 1
            return outcome == "done"

        eventually(is_done, f"{kind} of offsets is done", within_s=DEADLINE_S)

    def _any_worker(self) -> ConnectWorker:
        return random.choice(eventually(self.connect.answering, "a worker runs"))

    def _send(self, worker: ConnectWorker, method: str, path: str, body: Any = None) -> str:
        answer = self._request(worker, method, path, body)
        if answer is None or answer.is_server_error:
            return "unknown"
        return "done" if answer.is_success else "refused"

    @staticmethod
    def _request(worker: ConnectWorker, method: str, path: str, body: Any) -> httpx.Response | None:
        try:
            return httpx.request(
                method, worker.url + path, json=body, timeout=REQUEST_TIMEOUT_S, verify=False, trust_env=False
            )
        except httpx.TransportError:
            return None

    def _await_tasks(self, name: str) -> None:
        """Wait until a source's tasks run."""

        def run() -> bool:
            running = self.connect.processes()
            return all(len(running.get(f"{name}-{task}", ())) == 1 for task in range(TASKS))

        eventually(run, f"the tasks of {name} run", within_s=DEADLINE_S)

    # The history.

    def check_history(self, bootstrap: str) -> None:
        """Note as problems what the configuration topic has that it must not have, or lacks."""
        outcomes = {each.token: each.outcome for each in self.asked}
        found, deletions = set[str](), 0
        before: dict[str, Mapping[str, str]] = {}
        for record in config_history(bootstrap):
            previous, after = before.get(record.name), record.config
            if after is None:
                deletions += before.pop(record.name, None) is not None
                continue
            before[record.name] = after
            token = after["put"] if after["put"] not in found else next(iter(set(after) - set(previous or ())), "")
            found.add(token)
            if token.startswith("patch") and {**(previous or {}), token: "1"} != after:
                self.problems.append(f"{previous} became {after}")
            elif token.startswith("patch") and previous is None:
                self.problems.append(f"{token} has brought {record.name} back")
            elif not token.startswith("patch") and (not token or any(key.startswith("patch") for key in after)):
                self.problems.append(f"{previous} became {after}, by no single request")
            elif token.startswith("create") and previous is not None:
                self.problems.append(f"{token} has created what is there")
            if outcomes[token] == "refused":
                self.problems.append(f"{token} was refused and is in the history")
        written = [each for each in self.asked if each.kind in ("put", "patch", "create")]
        acknowledged_tokens = {each.token for each in written if each.outcome == "done"}
        self.problems += [f"{token} is lost" for token in sorted(acknowledged_tokens - found)]
        acknowledged = sum(each.kind == "delete" and each.outcome == "done" for each in self.asked)
        if deletions < acknowledged:
            self.problems.append(f"{acknowledged} deletions were acknowledged and {deletions} carried out")


def config_history(bootstrap: str) -> list[ConnectorRecord]:
    """Return all settings of connectors that were ever written, in their order."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "history", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(CONFIG_TOPIC, 0), timeout=30)
        consumer.assign([TopicPartition(CONFIG_TOPIC, 0, 0)])
        found, at = [], 0
        deadline_s = time.monotonic() + DEADLINE_S
        while at < end:
            assert time.monotonic() < deadline_s, f"the configuration topic was read to {at} of {end}"
            message = consumer.poll(1.0)
            if message is None or message.error() is not None:
                continue
            at = (message.offset() or 0) + 1
            try:
                record = decode(message.key(), message.value())
            except BadRecord:
                continue
            if isinstance(record, ConnectorRecord):
                found.append(record)
        return found
    finally:
        consumer.close()


Request = tuple[str, str, Any]


def _create(name: str, token: str, settings: Mapping[str, str]) -> Request:
    return "POST", "/connectors", {"name": name, "config": {**settings, "put": token}}


def _put(name: str, token: str, settings: Mapping[str, str]) -> Request:
    return "PUT", f"/connectors/{name}/config", {**settings, "put": token}


def _patch(name: str, token: str, _: Mapping[str, str]) -> Request:
    return "PATCH", f"/connectors/{name}/config", {token: "1"}


def _delete(name: str, _: str, __: Mapping[str, str]) -> Request:
    return "DELETE", f"/connectors/{name}", None


def _state(path: str, method: str = "PUT") -> Callable[[str, str, Mapping[str, str]], Request]:
    return lambda name, _, __: (method, f"/connectors/{name}/{path}", None)


KINDS: Mapping[str, Callable[[str, str, Mapping[str, str]], Request]] = {
    "create": _create,
    "put": _put,
    "patch": _patch,
    "delete": _delete,
    "pause": _state("pause"),
    "resume": _state("resume"),
    "stop": _state("stop"),
    "restart": _state("restart?includeTasks=true", "POST"),
}


# Faults; each returns when the worker is back.


def nothing(worker: ConnectWorker) -> None:
    """Nothing happens."""
    del worker


def kill(worker: ConnectWorker) -> None:
    """A worker is killed, and started again."""
    worker.kill()
    worker.start()
    worker.wait_until_ready()


def pause(worker: ConnectWorker) -> None:
    """A worker is paused for less than its session."""
    _pause(worker, SHORT_PAUSE_S)


def pause_long(worker: ConnectWorker) -> None:
    """A worker is paused until the group has given it up."""
    _pause(worker, LONG_PAUSE_S)


def _pause(worker: ConnectWorker, seconds: float) -> None:
    worker.pause()
    try:
        threading.Event().wait(seconds)
    finally:
        worker.resume()
    worker.wait_until_ready()


FAULTS: list[Callable[[ConnectWorker], None]] = [nothing, kill, pause, pause_long]


def figures(changes: Changes, rounds: int) -> str:
    """Return what the rounds did, in a few lines."""
    took = sorted(changes.acknowledged_s)
    spread = f"median {took[len(took) // 2]:.1f}, longest {took[-1]:.1f} s from the stop on" if took else ""
    return (
        f"{rounds} rounds, {len(changes.asked)} requests, {len(took)} changes of offsets ({spread})\n"
        + json.dumps(dict(sorted(changes.counts.items())), indent=1)
    )
