"""Operators at work: every operation of a schedule is begun and undone by a thread of its own.

The thread that lets faults happen only says when; requests are repeated until they are carried out, however long the
cluster is unable to. So operations overlap with faults and with each other in ways that the schedule does not name.
What an operation found is kept until it is undone.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from uuid import UUID

from tests.faults.fault import Fault, Kind
from tests.faults.operator_requests import OperatorRequests
from tests.faults.topic_life import TopicLife
from tests.support.eventually import NotInTime, eventually

END_DEADLINE_S = 120.0
MOVES_DEADLINE_S = 45.0
BIG_TOPIC_FACTOR = 2
BIG_TOPIC_CONFIGS = {"file.delete.delay.ms": "1000"}


Work = Callable[[Fault, OperatorRequests, threading.Event], None]
"""Carries out an operation, and undoes it when the event is set."""


class OperatorThreads:
    """Operators of one cluster, each with a thread of its own.

    Attributes:
        problems: what could not be done, or was not as it must be.
        counts: how much was done.
        perhaps_created: topics that may be created once more, late; see `OperatorRequests`.
    """

    def __init__(self, addresses: Mapping[int, tuple[str, int]], *, seed: int, work: Mapping[Kind, Work]):
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self.perhaps_created: set[str] = set()
        self._addresses = addresses
        self._seed = seed
        self._kinds = work
        self._gave_up = threading.Event()
        self._at_work: dict[Fault, tuple[threading.Thread, threading.Event]] = {}

    def begin(self, fault: Fault) -> None:
        """Begins an operation."""
        ending = threading.Event()
        thread = threading.Thread(target=self._work, args=(fault, ending), name=str(fault), daemon=True)
        self._at_work[fault] = thread, ending
        thread.start()

    def end(self, fault: Fault) -> None:
        """Undoes an operation, as soon as it is done."""
        self._at_work[fault][1].set()

    def finish(self) -> None:
        """Waits until everything is done and undone; the cluster must be well."""
        for fault, (thread, ending) in self._at_work.items():
            ending.set()
            thread.join(END_DEADLINE_S)
            if thread.is_alive():
                self.problems.append(f"an operator is not done: {fault}")
        self.counts["operations"] += len(self._at_work)

    def close(self) -> None:
        """Has everybody give up."""
        self._gave_up.set()
        for thread, ending in self._at_work.values():
            ending.set()
            thread.join(END_DEADLINE_S)

    def requests(self, who: str) -> OperatorRequests:
        """Requests of one more operator."""
        return OperatorRequests(self._addresses, seed=f"{who} of {self._seed}", gave_up=self._gave_up)

    def _work(self, fault: Fault, ending: threading.Event) -> None:
        requests = self.requests(str(fault))
        try:
            self._kinds[fault.kind](fault, requests, ending)
        except AssertionError as error:
            if not self._gave_up.is_set():
                self.problems.append(f"operator of {fault}: {error}")
        finally:
            self.perhaps_created |= requests.perhaps_created


class Operators(OperatorThreads):
    """All operators of a trial with one cluster."""

    def __init__(self, addresses: Mapping[int, tuple[str, int]], *, seed: int, factor: int):
        work: dict[Kind, Work] = {
            Kind.REASSIGN: reassign_and_back,
            Kind.CANCEL: reassign_and_cancel,
            Kind.SHUFFLE: shuffle_beside_a_big_topic,
            Kind.FACTOR: change_the_factor,
            Kind.BIG_TOPIC: big_topic,
            Kind.SETTINGS: change_a_setting,
            Kind.ELECT: elect,
            Kind.LIFE: self._live,
        }
        super().__init__(addresses, seed=seed, work=work)
        self._factor = factor
        self._lives: dict[str, TopicLife] = {}
        self._living: dict[str, threading.Lock] = {}
        self._crashes_s: list[float] = []

    @property
    def topics(self) -> set[str]:
        """The topics that operators have made and not deleted."""
        return {name for name, life in self._lives.items() if life.model.exists}

    def id_of_topic(self, name: str) -> UUID:
        """The id of a topic that exists; the cluster must be well."""
        return self.requests("the end").wait_for_topic(name).topic_id

    def note_crash(self, now_s: float) -> None:
        """A broker was killed."""
        self._crashes_s.append(now_s)

    def look(self) -> None:
        """Looks at what must be there; the cluster must be well."""
        requests = self.requests("the end")
        try:
            eventually(lambda: not requests.moves(), "no partition is on the move", within_s=MOVES_DEADLINE_S)
        except NotInTime as error:
            self.problems.append(f"{error}: {requests.moves()}")
        for life in self._lives.values():
            life.look_at_everything()
            self.problems += life.problems
            self.counts += life.counts

    def _live(self, fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
        name = fault.targets[0]
        # A topic has one operator at a time, or its model would not know what must be there.
        with self._living.setdefault(name, threading.Lock()):
            life = self._lives.setdefault(
                name,
                TopicLife(name, requests, factor=self._factor, seed=fault.wanted + name, crashes_s=self._crashes_s),
            )
            life.live(ending)


def reassign_and_back(fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
    """Moves a partition away, and back when told to, whether it has arrived or not."""
    topic, index = topic_and_index(fault)
    former = _replicas(requests, topic)[index]
    requests.reassign(topic, {index: _brokers(fault.wanted)})
    ending.wait()
    requests.reassign(topic, {index: former})


def reassign_and_cancel(fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
    """Begins to move a partition, and changes its mind."""
    topic, index = topic_and_index(fault)
    requests.reassign(topic, {index: _brokers(fault.wanted)})
    ending.wait()
    requests.reassign(topic, {index: None})


def shuffle_beside_a_big_topic(fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
    """Takes each replica but one away and puts it back, while the brokers are busy with a big topic's logs."""
    topic, index = topic_and_index(fault)
    former = _replicas(requests, topic)[index]
    name = f"beside-{topic}-{index}-{fault.from_s:g}".replace(".", "-")
    creating = threading.Thread(target=_create_and_delete, args=(name, int(fault.wanted), requests, ending))
    creating.start()
    try:
        while not ending.is_set():
            requests.reassign(topic, {index: former[:-1] if len(former) > 2 else former[::-1]})
            ending.wait(0.3)
            requests.reassign(topic, {index: former})
            ending.wait(0.3)
    finally:
        ending.wait()
        creating.join()
        requests.reassign(topic, {index: former})


def change_the_factor(fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
    """Gives all partitions of a topic more or fewer replicas, and then the former ones."""
    (topic,) = fault.targets
    former = _replicas(requests, topic)
    factor = int(fault.wanted)
    requests.reassign(
        topic,
        {
            index: [*replicas, *(each for each in requests.addresses if each not in replicas)][:factor]
            for index, replicas in former.items()
        },
    )
    ending.wait()
    requests.reassign(topic, former)


def big_topic(fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
    """Creates a topic with many partitions, and deletes it."""
    _create_and_delete(fault.targets[0], int(fault.wanted.split()[0]), requests, ending)


def change_a_setting(fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
    """Changes a topic's setting, and gives it its former value."""
    (topic,) = fault.targets
    key, _, value = fault.wanted.partition("=")
    former = requests.topic_config(topic, key)
    requests.set_topic_config(topic, key, value)
    ending.wait()
    requests.set_topic_config(topic, key, former)


def elect(_fault: Fault, requests: OperatorRequests, ending: threading.Event) -> None:
    """Elects the preferred leaders, twice."""
    requests.elect_preferred_leaders()
    ending.wait()
    requests.elect_preferred_leaders()


def topic_and_index(fault: Fault) -> tuple[str, int]:
    """The partition that an operation is about."""
    topic, _, index = fault.targets[0].rpartition("-")
    return topic, int(index)


def _create_and_delete(name: str, partitions: int, requests: OperatorRequests, ending: threading.Event) -> None:
    factor = min(BIG_TOPIC_FACTOR, len(requests.addresses))
    topic_id = requests.create_topic(name, partitions=partitions, factor=factor, configs=BIG_TOPIC_CONFIGS)
    ending.wait()
    requests.delete_topic(name, topic_id or requests.wait_for_topic(name).topic_id)


def _replicas(requests: OperatorRequests, topic: str) -> dict[int, tuple[int, ...]]:
    shown = requests.wait_for_topic(topic)
    return {index: partition.replicas for index, partition in shown.partitions.items()}


def _brokers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]
