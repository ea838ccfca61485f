"""Transactions of Java's clients: commit, abort, fencing, time-out, and consume-transform-produce."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.java.java_programs import JavaProgram
from tests.compat.transaction_cases import CASES, LONG_MS, Case, MakeProducer, case_name, new_id
from tests.conftest import TopicFactory
from tests.support.eventually import eventually

pytestmark = [pytest.mark.slow, pytest.mark.requires("kafka")]

END_DEADLINE_S = 30.0


class StepRefused(Exception):
    """Java's client threw what the message says."""


class JavaProducer:
    """A process with a transactional producer, which does a step for each line that it is sent."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._answer()

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._ask("send", topic, str(partition), value.decode())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._ask("offset", group, topic, str(offset))

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def committed(self, topic: str) -> list[str]:
        """What Java's consumer of committed records reads of the topic's first partition."""
        return self._ask("read", topic)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_DEADLINE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def _ask(self, *words: str) -> list[str]:
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> list[str]:
        """What follows `ok`; lines of the log come before it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            outcome, *told = line.split()
            if outcome == "ok":
                return told
            if outcome == "failed":
                raise StepRefused(" ".join(told))
        raise StepRefused(f"the process ended with {self._process.wait()}")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> JavaProgram:
    return JavaProgram("TransactionalSteps", tmp_path_factory.mktemp("java"), heap_mib=96)


@pytest.fixture
def make(program: JavaProgram, bootstrap: str, tmp_path: Path) -> Iterator[MakeProducer]:
    """Makes producers, which are closed after the test."""
    made: list[JavaProducer] = []

    def new(transactional_id: str, timeout_ms: int = LONG_MS) -> JavaProducer:
        producer = JavaProducer(program.command(bootstrap, transactional_id, str(timeout_ms)), tmp_path / "java.log")
        made.append(producer)
        return producer

    yield new
    for each in made:
        each.close()


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_transactions(case: Case, make: MakeProducer, bootstrap: str, new_topic: TopicFactory) -> None:
    case(make, bootstrap, new_topic)


def test_javas_consumer_sees_what_was_committed_and_nothing_else(make: MakeProducer, new_topic: TopicFactory) -> None:
    topic, producer = new_topic(), make(new_id())
    assert isinstance(producer, JavaProducer)
    for number in range(6):
        producer.begin()
        producer.send(topic, b"%d" % number)
        if number % 2:
            producer.abort()
        else:
            producer.commit()
    eventually(lambda: producer.committed(topic) == ["0", "2", "4"], "Java's consumer sees it")
