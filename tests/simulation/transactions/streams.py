"""The streams between brokers and coordinators, over the simulated network in place of gRPC.

Both real ends run on it: the broker's `RelaySession` and the coordinator's `GroupRelayService`. Messages of a
stream come in order, whole or not at all. What is sent while a link is cut waits, as TCP would send it again, and
may arrive long after it was sent; each end by itself gives the stream up when nothing has come through for some
seconds.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from ottla_broker.groups.relay_session import RelaySession, WriteMarkers
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_core.cluster.state.model import Member
from ottla_core.rpc.group_relay import BROKER_EPOCH_METADATA, BROKER_ID_METADATA
from ottla_proto.gen.ottla import group_relay_pb2 as pb
from tests.simulation.network import Network
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.transactions.processes import ShellProcess, SimulatedBroker

OPEN_TIMEOUT_MS = 1_000.0
RECONNECT_MS = (50.0, 500.0)
SILENCE_MS = (2_500.0, 9_000.0)
"""After how much of it an end gives a stream up, while its link is cut."""
LOOK_MS = 100.0
"""How often what waits for a link that is cut is tried again."""


class _End:
    """One end of an open connection.

    Attributes:
        peer: the other end.
        is_open: whether this end still counts the connection as open.
    """

    def __init__(self, process: Process, network: Network, receive: Callable[[Any], None]) -> None:
        self.process = process
        self.life = process.life
        self.peer: _End | None = None
        self.is_open = True
        self._network = network
        self._receive = receive
        self._under_way: deque[Any] = deque()
        self._not_before_ms = 0.0
        self._silent_ms = 0.0
        self._patience_ms = process.schedule.between(*SILENCE_MS)

    def watch(self) -> None:
        """Give the connection up by and by while nothing gets through."""
        if not self.is_open or self.process.life != self.life:
            return
        assert self.peer is not None
        here, there = self.process.name, self.peer.process.name
        is_cut = self._network.is_cut(here, there) or self._network.is_cut(there, here)
        self._silent_ms = self._silent_ms + LOOK_MS if is_cut else 0.0
        if self._silent_ms > self._patience_ms:
            self.close()
        else:
            self.process.schedule.after(LOOK_MS, self.watch)

    def send(self, content: Any) -> None:
        """Have the other end get something, behind all that was sent before; None says that this end is closed."""
        schedule = self.process.schedule
        at_ms = max(schedule.now_ms + self._network.delay_ms(), self._not_before_ms)
        self._not_before_ms = at_ms
        self._under_way.append(content)
        schedule.after(at_ms - schedule.now_ms, self._arrive)

    def _arrive(self) -> None:
        """Let the other end have what is first under way."""
        peer = self.peer
        assert peer is not None
        if not peer.is_open or peer.process.life != peer.life or not peer.process.is_running:
            return
        if self._network.is_cut(self.process.name, peer.process.name):
            self.process.schedule.after(LOOK_MS, self._arrive)
            return
        peer.process.deliver(peer.take, (self._under_way.popleft(),))

    def take(self, content: Any) -> None:
        """Take what has come."""
        if self.is_open:
            if content is None:
                self.is_open = False
            self._receive(content)

    def close(self) -> None:
        """End the connection here, and tell the other end."""
        if self.is_open:
            self.is_open = False
            self.send(None)
            if self.process.is_running and self.process.life == self.life:
                self.process.deliver(self._receive, (None,))


class _Incoming:
    """What has come, for those who await it."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[pb.Frames | None] = asyncio.Queue()

    def put(self, message: pb.Frames | None) -> None:
        self._messages.put_nowait(message)

    async def __aiter__(self) -> AsyncIterator[pb.Frames]:
        while (message := await self._messages.get()) is not None:
            yield message


class _Aborted(Exception):
    """A call that the service refuses."""


class _Context:
    """What gRPC would give the service."""

    def __init__(self, broker_id: int, broker_epoch: int, end: _End) -> None:
        self._metadata = ((BROKER_ID_METADATA, str(broker_id)), (BROKER_EPOCH_METADATA, str(broker_epoch)))
        self._end = end

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    async def abort(self, _code: object, reason: str) -> None:
        raise _Aborted(reason)

    async def send_initial_metadata(self, _metadata: object) -> None:
        self._end.send(OPENED)

    async def write(self, message: pb.Frames) -> None:
        self._end.send(message)


OPENED = "opened"
"""What the service says first."""


def serve_stream(process: "ShellProcess", service: Any, broker_id: int, broker_epoch: int, end: _End) -> _Incoming:
    """Have a coordinator serve a stream; return where its messages go."""
    incoming = _Incoming()

    async def serve() -> None:
        try:
            await service.Relay(incoming, _Context(broker_id, broker_epoch, end))
        except _Aborted:
            pass
        finally:
            end.close()

    process.spawn(serve)
    return incoming


class Stream:
    """The broker's end, in place of `CoordinatorStream`: opened again and again until it is stopped.

    Attributes:
        coordinator: whom it leads to.
        broker_epoch: under which the broker opens it.
        session: while it is open.
        relayed_count: for metrics only.
    """

    relayed_count = 0

    def __init__(
        self,
        coordinator: Member,
        _broker_id: int,
        broker_epoch: int,
        shard_log: ShardLogAccess,
        *,
        write_markers: WriteMarkers | None = None,
        **_others: object,
    ) -> None:
        self.coordinator = coordinator
        self.broker_epoch = broker_epoch
        self.session: RelaySession | None = None
        loop: Any = asyncio.get_running_loop()
        self._process: SimulatedBroker = loop.process
        self._shard_log = shard_log
        self._write_markers = write_markers
        self._end: _End | None = None
        self._is_stopped = False
        self._sending: asyncio.Task[None] | None = None
        self._open()

    def stop(self) -> None:
        """Open it no more."""
        self._is_stopped = True
        if self._end is not None:
            self._end.close()

    async def closed(self) -> None:
        """Return: nothing has to be let go of."""

    def _open(self) -> None:
        target = self._process.coordinator_process(self.coordinator)
        if self._is_stopped:
            return
        network = self._process.network
        if target is None or not target.is_running or network.is_cut(self._process.name, target.name):
            self._open_later()
            return
        end = self._end = _End(self._process, network, self._receive)
        other = _End(target, network, lambda message: None)
        end.peer, other.peer = other, end

        def begin() -> None:
            incoming = serve_stream(target, target.service, self._process.id, self.broker_epoch, other)
            other._receive = incoming.put

        target.deliver(begin, ())
        end.watch()
        other.watch()

    def _open_later(self) -> None:
        self._process.after(self._process.schedule.between(*RECONNECT_MS), self._open)

    def _receive(self, message: Any) -> None:
        if message == OPENED:
            session = self.session = RelaySession(self._shard_log, None, self._write_markers)
            assert self._end is not None
            self._sending = asyncio.get_running_loop().create_task(_send(session, self._end))
        elif message is not None:
            assert self.session is not None
            self.session.receive(message)
        else:
            self._end_session()

    def _end_session(self) -> None:
        session, self.session = self.session, None
        if self._sending is not None:
            self._sending.cancel()
        if session is not None:
            session.end("the stream broke")
        self._open_later()


async def _send(session: RelaySession, end: _End) -> None:
    while True:
        end.send(await session.outgoing.take())
