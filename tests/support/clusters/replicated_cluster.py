"""Several brokers that replicate, each a process of its own that a test may kill, pause and start again.

There are one etcd, one controller or more, and the brokers, each by its own command as in `service_process.py`.
`state_of` shows a partition as a broker tells its clients, which is how tests wait for elections and in-sync sets.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from kio.schema.errors import ErrorCode

from tests.faults.faulty_disk import STALLED
from tests.support.clients.raw_client import RawClient, Silence
from tests.support.clients.raw_requests import LATEST, create_topic_request, list_offsets_request, metadata_request
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.clusters.service_process import BrokerProcess, ControllerProcess
from tests.support.eventually import eventually

SEGMENT_FILES = "*.log"
DISK_CONTROL = "disk-fault"


class PartitionSeen(NamedTuple):
    """A partition as a broker shows it to clients."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]
    offline: frozenset[int]


class ReplicatedCluster:
    """The processes, started in order and always ended.

    Attributes:
        etcd: the one etcd.
        controllers: at least one.
        brokers: by id, from 1 on.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int = 3,
        controllers: int = 1,
        broker_settings: Mapping[str, str] | None = None,
        controller_settings: Mapping[str, str] | None = None,
        racks: Mapping[int, str] | None = None,
        log_directories: int = 1,
        faulty_disks: bool = False,
        more_listeners: Mapping[int, Sequence[str]] | None = None,
        broker_environments: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.etcd = EtcdProcess(directory / "etcd")
        self.controllers = [
            ControllerProcess(
                directory / f"controller-{number}", self.etcd, number=number, settings=controller_settings
            )
            for number in range(1, controllers + 1)
        ]
        self.brokers = {
            number: BrokerProcess(
                directory / f"broker-{number}",
                self.etcd,
                number=number,
                settings={
                    "log.dirs": ",".join(
                        str(directory / f"broker-{number}" / ("data" if index == 1 else f"data-{index}"))
                        for index in range(1, log_directories + 1)
                    ),
                    **(broker_settings or {}),
                    **({"broker.rack": racks[number]} if racks else {}),
                },
                more_listeners=(more_listeners or {}).get(number, ()),
                environment=(broker_environments or {}).get(number),
                disk_control=directory / f"broker-{number}" / DISK_CONTROL if faulty_disks else None,
            )
            for number in range(1, brokers + 1)
        }

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def create_topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates a topic with a replica on every broker, all of them in sync, and waits until its leaders lead."""
        request = create_topic_request(
            name, partitions=partitions, replication_factor=len(self.brokers), configs=configs
        )
        (created,) = self.ask(request).topics
        assert created.error_code is ErrorCode.none, created.error_message
        for index in range(partitions):
            self.wait_for_isr(name, set(self.brokers), index=index)
            eventually(partial(self._is_led, name, index), f"the leader of {name}-{index} leads")
        return name

    def _is_led(self, topic: str, index: int) -> bool:
        """Whether the leader has heard of it: its part of the state arrives a moment after the others have theirs."""
        request = list_offsets_request(topic, LATEST, partition=index)
        (answer,) = self.ask(request, self.state_of(topic, index).leader).topics[0].partitions
        return bool(answer.error_code is ErrorCode.none)

    def ask(self, request: Any, broker: int | None = None) -> Any:
        """Asks one broker, or any that answers."""
        addresses = [self.brokers[broker].bootstrap] if broker else self.bootstrap.split(",")
        for address in addresses:
            try:
                with RawClient.to(address) as client:
                    return client.ask(request)
            except (OSError, Silence):
                continue
        raise ConnectionError(f"none of {addresses} answers")

    def state_of(self, topic: str, index: int = 0, *, broker: int | None = None) -> PartitionSeen:
        """A partition as a broker shows it, by default any that answers."""
        (told,) = self.ask(metadata_request([topic]), broker).topics
        if told.error_code is not ErrorCode.none:
            raise ConnectionError(f"{topic}: {told.error_code.name}")
        (partition,) = [each for each in told.partitions if each.partition_index == index]
        return PartitionSeen(
            partition.leader_id,
            partition.leader_epoch,
            frozenset(partition.isr_nodes),
            frozenset(partition.offline_replicas),
        )

    def wait_for_isr(self, topic: str, isr: set[int], *, index: int = 0, within_s: float = 30) -> PartitionSeen:
        """Waits until exactly these brokers are in sync."""

        def seen() -> PartitionSeen | None:
            state = self.state_of(topic, index)
            return state if state.isr == isr and state.leader > 0 else None

        return eventually(seen, f"{isr} are in sync for {topic}-{index}", within_s=within_s)

    def wait_until_all_know(self, topic: str) -> None:
        """Waits until every broker shows the topic; each hears of it in its own time."""
        for number in self.brokers:
            eventually(partial(self._knows, number, topic), f"broker {number} knows {topic}")

    def _knows(self, broker: int, topic: str) -> bool:
        (told,) = self.ask(metadata_request([topic]), broker).topics
        return bool(told.error_code is ErrorCode.none)

    def wait_for_other_leader(self, topic: str, former: int, *, index: int = 0) -> int:
        """Waits until somebody else leads, and returns who."""

        def other() -> int | None:
            leader = self.state_of(topic, index).leader
            return leader if leader not in (former, -1) else None

        return eventually(other, f"{topic}-{index} has another leader than {former}")

    def log_bytes(self, broker: int, topic: str, index: int = 0) -> bytes:
        """The partition's segments in a broker's log directory, one after the other."""
        directory = self.brokers[broker].data / f"{topic}-{index}"
        return b"".join(path.read_bytes() for path in sorted(directory.glob(SEGMENT_FILES)))

    def wait_for_equal_logs(self, topic: str, index: int = 0) -> bytes:
        """Waits until every broker has the same bytes, and returns them."""

        def equal() -> tuple[bytes] | None:
            first, *others = [self.log_bytes(number, topic, index) for number in self.brokers]
            return (first,) if all(other == first for other in others) else None

        return eventually(equal, f"the replicas of {topic}-{index} are equal")[0]

    def trouble_disk(self, broker: int, mode: str) -> None:
        """Has a broker's disk be in a mode of `tests/faults/faulty_disk.py`; an empty one ends that."""
        control = self.brokers[broker].data.with_name(DISK_CONTROL)
        written = control.with_suffix(".new")
        written.write_text(mode)
        written.replace(control)

    @contextmanager
    def stalled_disk(self, broker: int, mode: str = STALLED) -> Iterator[None]:
        """A broker's disk hangs."""
        self.trouble_disk(broker, mode)
        try:
            yield
        finally:
            self.trouble_disk(broker, "")

    def pause(self, broker: int) -> None:
        """SIGSTOP."""
        os.kill(self.brokers[broker].process.pid, signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """SIGCONT."""
        os.kill(self.brokers[broker].process.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        try:
            self.etcd.directory.mkdir(parents=True, exist_ok=True)
            self.etcd.start()
            for controller in self.controllers:
                controller.start()
            for broker in self.brokers.values():
                broker.process.start()
            for broker in self.brokers.values():
                eventually(broker.is_ready, f"{broker.bootstrap} answers", within_s=60)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        for controller in self.controllers:
            controller.process.kill()
        self.etcd.stop()
