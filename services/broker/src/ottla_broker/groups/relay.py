"""The way of a request about groups or transactions from this broker to the coordinator that owns their shard.

There is one stream to every registered coordinator, since each may need the logs that this broker leads. Streams
follow the cluster state: a coordinator that registers anew is another one, and so is this broker for it.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla_broker.groups.coordinator_stream import CoordinatorStream
from ottla_broker.groups.errors import NotCoordinator
from ottla_broker.groups.marker_writing import MarkerWriting
from ottla_broker.groups.relay_session import Finish, RelaySession
from ottla_broker.groups.routing import owner_of, owners
from ottla_broker.groups.shard_log_access import ShardLogAccess
from ottla_broker.groups.topic_rights import RelayedClient, TopicRights
from ottla_core.background import start_detached
from ottla_core.callback_answer import CallbackAnswer
from ottla_core.cluster.state.model import ClusterState, Member
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import MessageTooLarge
from ottla_core.rpc.frame_queue import FRAME_BYTES_MAX
from ottla_core.rpc.group_relay import ALL_SHARDS
from ottla_core.shards import GROUP_TOPIC, shard_named
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import group_relay_pb2 as pb

if TYPE_CHECKING:
    from ottla_core.rpc.tls import RpcTls

T = TypeVar("T")

OWN_HOST = "/127.0.0.1"
"""Where the client is, of requests that the broker makes itself."""


def answer_or_raise(answer: bytes | NotCoordinator) -> bytes:
    """Return a coordinator's answer: a `Finish` for those who await it.

    Raises:
        NotCoordinator: there is none.
    """
    if isinstance(answer, NotCoordinator):
        raise answer
    return answer


class GroupRelay:
    """Passes requests on to the coordinators.

    Attributes:
        shard_log: the logs as the coordinators use them.
        markers: writes what ends transactions; None where nothing does.
        streams: by coordinator id.
    """

    def __init__(
        self,
        feed: ClusterStateFeed,
        broker_id: int,
        shard_log: ShardLogAccess,
        *,
        tls: "RpcTls | None" = None,
        topic_rights: TopicRights | None = None,
        markers: MarkerWriting | None = None,
    ) -> None:
        self.shard_log = shard_log
        self.markers = markers
        self.streams: dict[int, CoordinatorStream] = {}
        self._feed = feed
        self._broker_id = broker_id
        self._tls = tls
        self._topic_rights = topic_rights
        self._retired: set[asyncio.Task[None]] = set()
        self._retired_count = 0
        self._topics_revision = 0
        self._unsubscribe: Callable[[], None] | None = None

    def start(self) -> None:
        """Connect to the coordinators there are, and to those that come."""
        self._unsubscribe = self._feed.subscribe(self._on_cluster_state)
        self._topics_revision = self._feed.state.revision
        self._follow(self._feed.state)

    async def close(self) -> None:
        """Close the streams; what waits for an answer fails."""
        if self._unsubscribe is not None:
            self._unsubscribe()
        for coordinator_id in list(self.streams):
            self._retire(coordinator_id)
        await asyncio.gather(*self._retired)

    @property
    def relayed_count(self) -> int:
        """Requests passed on since the start."""
        return self._retired_count + sum(stream.relayed_count for stream in self.streams.values())

    @property
    def waiting_count(self) -> int:
        """Requests passed on and not answered yet."""
        return sum(stream.session.waiting_count for stream in self.streams.values() if stream.session is not None)

    @property
    def open_count(self) -> int:
        """Streams that are open."""
        return sum(stream.session is not None for stream in self.streams.values())

    def check_reachable(self, shard: TopicPartition) -> None:
        """See that the shard's owner could be asked now.

        Raises:
            NotCoordinator: there is no owner, or no open stream to it.
        """
        self._session_with(owner_of(self._feed.state, shard))

    def ask(
        self,
        shard: TopicPartition,
        frame: bytes,
        client_host: str,
        finish: Finish[T],
        *,
        only_forward: bool = False,
        sets_all_back: bool = False,
        client: RelayedClient | None = None,
        fresh_producer_id: int | None = None,
        verification_guard: int | None = None,
    ) -> CallbackAnswer[T]:
        """Pass a request on to the owner of a shard; see `RelaySession.ask`.

        Raises:
            NotCoordinator: there is no owner, or it cannot be reached.
            MessageTooLarge: the request is larger than what travels to a coordinator.
        """
        return self._ask(
            owner_of(self._feed.state, shard),
            shard,
            frame,
            client_host,
            finish,
            only_forward=only_forward,
            sets_all_back=sets_all_back,
            client=client,
            fresh_producer_id=fresh_producer_id,
            verification_guard=verification_guard,
        )

    def ask_shard(self, shard: TopicPartition, frame: bytes) -> CallbackAnswer[bytes]:
        """Ask the owner of a shard on behalf of this broker itself.

        Raises:
            NotCoordinator, MessageTooLarge: as `ask`.
        """
        return self.ask(shard, frame, OWN_HOST, answer_or_raise)

    async def write_markers(self, request: pb.MarkersWrite) -> pb.MarkersWritten:
        """Write the markers that a coordinator asks for."""
        assert self.markers is not None
        return await self.markers.answer(request, self.ask_shard)

    async def ask_all(self, frame: bytes, client_host: str, topic: str = GROUP_TOPIC) -> list[bytes]:
        """Return the answers of all owners of shards of a topic to a request that concerns every one of them.

        Raises:
            NotCoordinator: a shard has no owner, or one cannot be reached.
            MessageTooLarge: the request is larger than what travels to a coordinator.
        """
        return await asyncio.gather(
            *(self._ask_for_all(owner, frame, client_host, topic) for owner in owners(self._feed.state, topic))
        )

    async def _ask_for_all(self, owner: Member, frame: bytes, client_host: str, topic: str) -> bytes:
        return await self._ask(owner, shard_named(topic, ALL_SHARDS), frame, client_host, answer_or_raise)

    def _ask(
        self,
        owner: Member,
        shard: TopicPartition,
        frame: bytes,
        client_host: str,
        finish: Finish[T],
        *,
        only_forward: bool = False,
        sets_all_back: bool = False,
        client: RelayedClient | None = None,
        fresh_producer_id: int | None = None,
        verification_guard: int | None = None,
    ) -> CallbackAnswer[T]:
        if len(frame) > FRAME_BYTES_MAX:
            raise MessageTooLarge(f"a request of {len(frame)} bytes about groups; {FRAME_BYTES_MAX} is the most")
        return self._session_with(owner).ask(
            shard,
            frame,
            client_host,
            self._topics_revision,
            finish,
            only_forward=only_forward,
            sets_all_back=sets_all_back,
            client=client,
            fresh_producer_id=fresh_producer_id,
            verification_guard=verification_guard,
        )

    def _session_with(self, owner: Member) -> RelaySession:
        stream = self.streams.get(owner.id)
        if stream is None or stream.coordinator.epoch != owner.epoch or stream.session is None:
            raise NotCoordinator(f"there is no connection to group coordinator {owner.id}")
        return stream.session

    def _on_cluster_state(self, former: ClusterState, state: ClusterState) -> None:
        if former.topics_by_id.keys() != state.topics_by_id.keys():
            self._topics_revision = state.revision
        self._follow(state)

    def _follow(self, state: ClusterState) -> None:
        """Keep exactly the streams that the cluster state calls for; nothing changes while it does not."""
        broker = state.brokers.get(self._broker_id)
        for coordinator_id, stream in list(self.streams.items()):
            registered = state.coordinators.get(coordinator_id)
            gone = registered is None or registered.epoch != stream.coordinator.epoch
            if gone or (broker is not None and broker.epoch != stream.broker_epoch):
                self._retire(coordinator_id)
        if broker is None:
            return  # its own registration has lapsed: streams that are open stay, no new one is opened
        for coordinator_id, coordinator in state.coordinators.items():
            if coordinator_id not in self.streams:
                self.streams[coordinator_id] = CoordinatorStream(
                    coordinator,
                    self._broker_id,
                    broker.epoch,
                    self.shard_log,
                    tls=self._tls,
                    topic_rights=self._topic_rights,
                    write_markers=None if self.markers is None else self.write_markers,
                )

    def _retire(self, coordinator_id: int) -> None:
        stream = self.streams.pop(coordinator_id)
        stream.stop()
        self._retired_count += stream.relayed_count
        closing = start_detached("closing a group relay", stream.closed())
        self._retired.add(closing)
        closing.add_done_callback(self._retired.discard)
