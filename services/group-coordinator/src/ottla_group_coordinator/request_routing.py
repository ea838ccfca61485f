"""From a frame on a broker's stream to the shard of groups that decides on it."""

import itertools
from collections.abc import Callable

from ottla_core.background import start_detached
from ottla_core.errors import KafkaError, UnsupportedVersion
from ottla_core.rpc.group_relay import ALL_SHARDS, shard_in
from ottla_core.topic_partition import TopicPartition
from ottla_core.wire.frequent_requests import read_frequent_request
from ottla_core.wire.group_responses import CONSUMER_GROUP_HEARTBEAT, LIST_GROUPS, OFFSET_COMMIT, OFFSET_FETCH
from ottla_core.wire.messages import message_codec, read_request_header
from ottla_core.wire.transaction_responses import TXN_OFFSET_COMMIT, WRITE_TXN_MARKERS
from ottla_group_coordinator.describable_topics import Asker, DescribableTopics, RightsUnknown
from ottla_group_coordinator.errors import InvalidRegularExpression
from ottla_group_coordinator.group_request import GroupRequest
from ottla_group_coordinator.runtime.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.runtime.errors import CoordinatorLoadInProgress, NotCoordinator
from ottla_group_coordinator.runtime.relay_stream import RelayStream, StreamClosed
from ottla_group_coordinator.runtime.request_reading import take_guarded
from ottla_group_coordinator.runtime.requests_awaiting_state import RequestsAwaitingState
from ottla_group_coordinator.runtime.shard_table import ShardTable
from ottla_group_coordinator.runtime.waiting_request import RelayedRequest, WaitingRequest
from ottla_group_coordinator.shard import HANDLERS, GroupShard
from ottla_group_coordinator.shard_listing import list_all_shards
from ottla_proto.gen.ottla import group_relay_pb2 as pb

NAMES_TOPICS = frozenset({OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT})
"""APIs for which it matters which topic has a name just now."""


class RequestRouter:
    """Reads requests and hands them to their shards.

    Args:
        shards: the shards of this process.
        seen_revision: returns the revision of the cluster state that they see.
        counts: for metrics.

    Attributes:
        ahead: requests of brokers that have seen a later one.
    """

    def __init__(
        self, shards: ShardTable[GroupShard], seen_revision: Callable[[], int], counts: CoordinatorCounts
    ) -> None:
        self.awaiting_state = RequestsAwaitingState(self._submit)
        self._shards = shards
        self._seen_revision = seen_revision
        self._counts = counts
        self._tokens = itertools.count()
        self._describable = DescribableTopics()

    def take(self, stream: RelayStream, frame_id: int, relayed: pb.GroupRequest) -> None:
        """Take a request that came on a stream; it is answered there, now or later."""
        take_guarded(stream, frame_id, lambda: self._take(stream, frame_id, relayed))

    def _take(self, stream: RelayStream, frame_id: int, relayed: pb.GroupRequest) -> None:
        data = relayed.frame
        frame = memoryview(data)
        header = read_request_header(frame)
        codec = message_codec(header.api_key, header.api_version)
        message = read_frequent_request(header.api_key, header.api_version, data, codec.body_offset(frame, header))
        if message is None:
            message = codec.read_request(frame, header)
        self._counts.requests[header.api_key] += 1
        request = GroupRequest(
            token=next(self._tokens),
            api_key=header.api_key,
            api_version=header.api_version,
            client_id=header.client_id or "",
            client_host=relayed.client_host,
            message=message,
            only_forward=relayed.only_forward,
            sets_all_back=relayed.sets_all_back,
        )
        waiting = RelayedRequest(request, stream, frame_id, codec, header.correlation_id)
        shard = shard_in(relayed)
        if relayed.HasField("verification_guard"):
            request.verification_guard = relayed.verification_guard
        if header.api_key == WRITE_TXN_MARKERS:
            request.partition = shard.partition
        if header.api_key not in HANDLERS:
            self._refuse(waiting, UnsupportedVersion())
        elif shard.partition == ALL_SHARDS and header.api_key == LIST_GROUPS:
            list_all_shards(waiting, request, self._shards.owned, self._tokens, listed="groups")
        elif header.api_key in NAMES_TOPICS and relayed.topics_revision > self._seen_revision():
            self.awaiting_state.hold(relayed.topics_revision, shard, waiting)
        elif header.api_key == CONSUMER_GROUP_HEARTBEAT and relayed.HasField("principal"):
            self._submit_with_view(shard, waiting, request, stream, relayed)
        else:
            self._submit(shard, waiting)

    def _submit_with_view(
        self,
        shard: TopicPartition,
        waiting: WaitingRequest,
        request: GroupRequest,
        stream: RelayStream,
        relayed: pb.GroupRequest,
    ) -> None:
        """Submit a heartbeat with what its client may describe, once that is known."""
        runtime = self._shards.get(shard)
        if runtime is None or runtime.shard is None:
            self._submit(shard, waiting)
            return
        try:
            topics = self._describable.matches(runtime.shard, request)
        except InvalidRegularExpression:  # which the shard refuses
            topics = None
        if topics is None:
            self._submit(shard, waiting)
            return
        asker, version = Asker.of(stream, relayed), relayed.rights_version
        request.visible_topics = self._describable.visible(asker, version, topics)
        if request.visible_topics is not None:
            self._submit(shard, waiting)
            return

        async def ask() -> None:
            try:
                request.visible_topics = await self._describable.ask(stream, asker, version, topics)
            except (RightsUnknown, StreamClosed) as error:
                self._refuse(waiting, CoordinatorLoadInProgress(str(error)))
            else:
                self._submit(shard, waiting)

        start_detached("rights of a client", ask(), broker=stream.broker_id)

    def _submit(self, shard: TopicPartition, waiting: WaitingRequest) -> None:
        runtime = self._shards.get(shard)
        if runtime is None:
            self._refuse(waiting, NotCoordinator())
        else:
            runtime.submit(waiting)

    def _refuse(self, waiting: WaitingRequest, error: KafkaError) -> None:
        self._counts.refused[error.code.name] += 1
        waiting.refuse(error)
