"""From a frame on a broker's stream to the shard of transactions that decides on it."""

import itertools

from ottla_core.errors import KafkaError, UnsupportedVersion
from ottla_core.rpc.group_relay import ALL_SHARDS, shard_in
from ottla_core.wire.messages import message_codec, read_request_header
from ottla_core.wire.transaction_responses import LIST_TRANSACTIONS
from ottla_group_coordinator.runtime.coordinator_counts import CoordinatorCounts
from ottla_group_coordinator.runtime.errors import NotCoordinator
from ottla_group_coordinator.runtime.relay_stream import RelayStream
from ottla_group_coordinator.runtime.request_reading import take_guarded
from ottla_group_coordinator.runtime.shard_table import ShardTable
from ottla_group_coordinator.runtime.waiting_request import RelayedRequest, WaitingRequest
from ottla_group_coordinator.shard_listing import list_all_shards
from ottla_group_coordinator.transactions.requests import TransactionRequest
from ottla_group_coordinator.transactions.shard import HANDLERS, TransactionShard
from ottla_proto.gen.ottla import group_relay_pb2 as pb


class TransactionRouter:
    """Reads requests and hands them to their shards.

    Args:
        shards: the shards of transactions of this process.
        counts: for metrics.
    """

    def __init__(self, shards: ShardTable[TransactionShard], counts: CoordinatorCounts) -> None:
        self._shards = shards
        self._counts = counts
        self._tokens = itertools.count()

    def take(self, stream: RelayStream, frame_id: int, relayed: pb.GroupRequest) -> None:
        """Take a request that came on a stream; it is answered there, now or later."""
        take_guarded(stream, frame_id, lambda: self._take(stream, frame_id, relayed))

    def _take(self, stream: RelayStream, frame_id: int, relayed: pb.GroupRequest) -> None:
        frame = memoryview(relayed.frame)
        header = read_request_header(frame)
        codec = message_codec(header.api_key, header.api_version)
        self._counts.requests[header.api_key] += 1
        request = TransactionRequest(
            token=next(self._tokens),
            api_key=header.api_key,
            api_version=header.api_version,
            client_id=header.client_id or "",
            message=codec.read_request(frame, header),
            fresh_producer_id=relayed.fresh_producer_id if relayed.HasField("fresh_producer_id") else None,
        )
        waiting = RelayedRequest(request, stream, frame_id, codec, header.correlation_id)
        shard = shard_in(relayed)
        runtime = self._shards.get(shard)
        if header.api_key not in HANDLERS:
            self._refuse(waiting, UnsupportedVersion())
        elif shard.partition == ALL_SHARDS and header.api_key == LIST_TRANSACTIONS:
            list_all_shards(waiting, request, self._shards.owned, self._tokens, listed="transaction_states")
        elif runtime is None:
            self._refuse(waiting, NotCoordinator())
        else:
            runtime.submit(waiting)

    def _refuse(self, waiting: WaitingRequest, error: KafkaError) -> None:
        self._counts.refused[error.code.name] += 1
        waiting.refuse(error)
