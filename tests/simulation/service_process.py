"""A simulated process that runs Ottla's real shells: its event loop, its client of etcd, its view of the cluster.

A service that cannot go on (etcd does not answer at its start, somebody else has its place) ends, and is started
again a moment later, as whoever supervises real ones does it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import KafkaError, OttlaError, RequestTimedOut
from tests.simulation.etcd_stubs import etcd_client
from tests.simulation.fake_etcd import KEYS, FakeEtcd
from tests.simulation.network import Answer, Network
from tests.simulation.process import Process
from tests.simulation.schedule import Schedule
from tests.simulation.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from tests.simulation.invariants import Invariants

LEASE_TTL_MS = 2_000
VIEW_AGE_MAX_MS = 3_000
RESTART_DELAY_MS = 500.0


class ProcessClock:
    """A process's clock, as the services know it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def time_ms(self) -> int:
        """Return milliseconds."""
        return self._process.now_ms()

    def monotonic(self) -> float:
        """Return seconds."""
        return self._process.monotonic_s()


class ServiceProcess(Process):
    """A service over all its lives.

    Attributes:
        sender: what etcd takes this life's requests to come from.
        feed: the view of the cluster in this life; None until there is one.
    """

    def __init__(
        self, name: str, schedule: Schedule, network: Network, etcd: FakeEtcd, observer: "Invariants"
    ) -> None:
        super().__init__(name, schedule)
        self.network = network
        self.etcd = etcd
        self.observer = observer
        self.clock = ProcessClock(self)
        self.feed: ClusterStateFeed | None = None
        self.loops: list[VirtualLoop] = []
        """What killed lives were doing is kept until the end, lest it be collected and clear up."""

    @property
    def sender(self) -> str:
        """Name of this life."""
        return f"{self.name}:{self.life}"

    @property
    def state(self) -> ClusterState:
        """The cluster state as this process knows it."""
        return self.feed.state if self.feed is not None else ClusterState()

    def on_start(self) -> None:
        """Run the service."""
        self.feed = None
        self.loop = VirtualLoop.of(self)
        self.loops.append(self.loop)
        self.spawn(self._serve)

    def perform(self, action: Callable[..., None], *arguments: Any) -> None:
        """Do it on this life's event loop, with all that comes of it at once."""
        self.loop.run(action, *arguments)

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run something on this life's loop; what it raises unexpectedly is a violation."""

        async def run() -> None:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - whatever it is
                self.observer.unexpected(self.name, error)

        self.loop.run(self.loop.create_task, run())

    async def _serve(self) -> None:
        try:
            etcd = etcd_client(self, self.sender, self.network, self.etcd)
            feed = ClusterStateFeed(etcd, KEYS.cluster_name, age_max_ms=VIEW_AGE_MAX_MS, clock=self.clock)
            await feed.start()
            self.feed = feed
            reason = await self.serve(etcd, feed)
        except OttlaError as error:
            reason = str(error)
        self.note("ends: {}", reason)
        self.kill()
        self.schedule.after(RESTART_DELAY_MS, self._start_again, self.life)

    def _start_again(self, life: int) -> None:
        if self.life == life and not self.is_running:
            self.start()

    async def serve(self, etcd: EtcdClient, feed: ClusterStateFeed) -> str:
        """Do what this service is for; returns why it ends."""
        raise NotImplementedError

    async def ask(self, target: Process, handler: Any, request: Any, timeout_s: float) -> Any:
        """Call another process.

        Raises:
            RequestTimedOut: it did not answer.
            KafkaError: it refused.
        """
        answered: asyncio.Future[Any] = self.loop.create_future()

        def over(answer: Any) -> None:
            if not answered.done():
                answered.set_result(answer)

        self.network.call(self, target, handler, request, over, timeout_s * 1000)
        answer = await answered
        if answer is None:
            raise RequestTimedOut(f"{target.name} does not answer")
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def answer_later(self, work: Callable[[], Coroutine[Any, Any, Any]], answer: Answer) -> None:
        """Answer with what some work returns, or why it was refused."""

        async def run() -> None:
            try:
                answer(await work())
            except KafkaError as error:
                answer(error)

        self.spawn(run)
