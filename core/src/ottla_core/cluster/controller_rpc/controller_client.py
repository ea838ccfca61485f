"""How a broker asks the controller for changes of cluster state, and reads its own writes.

The leader is the one in the feed's state. When there is none, when it does not answer, or when it says that it
does not lead (any more), the request goes out again as soon as there is somebody else to ask, until the deadline.
A success is returned only after this process's own state has reached the revision that contains the change.

Repeating is safe: a topic carries the id it shall get, so its second creation is recognised; a config change has
the same outcome twice; a producer id block that was not delivered is lost, as Kafka's are; a proposed in-sync set
names the state that it replaces. Only a deletion, a growth, an election or an end of registration that is repeated
because its answer got lost may come back as an error saying that it has happened.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from google.protobuf.message import Message
from grpc import aio

from ottla_core.background import ensure_awaited
from ottla_core.clock import Clock, SystemClock
from ottla_core.cluster.controller_rpc import controller_messages as messages
from ottla_core.cluster.controller_rpc.controller_api import (
    AlteredIsr,
    AlteredReassignment,
    AlteredResource,
    ConfigResourceChange,
    CreatedTopic,
    DeletedTopic,
    ElectedLeader,
    ElectionType,
    FeatureUpdate,
    GrownTopic,
    IsrChange,
    NewPartitions,
    NewTopic,
    ProducerIdBlock,
    Reassignment,
    TopicReference,
)
from ottla_core.cluster.state.model import ClusterState, ControllerLeader
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import NotController, RequestTimedOut
from ottla_core.rpc.channel import ChannelPool
from ottla_core.rpc.status import RpcUnavailable, kafka_error
from ottla_core.rpc.unary_method import UnaryMethod
from ottla_core.rpc_identity import CONTROLLER, RpcIdentity
from ottla_core.topic_partition import TopicPartition
from ottla_proto.gen.ottla import controller_pb2 as pb
from ottla_proto.gen.ottla.controller_pb2_grpc import ControllerStub

if TYPE_CHECKING:
    from ottla_core.observe.tracing import Tracing
    from ottla_core.rpc.tls import RpcTls

    # exists in the stubs' types only
    from ottla_proto.gen.ottla.controller_pb2_grpc import ControllerAsyncStub

RETRY_DELAY_S = 0.05
DEFAULT_TIMEOUT_S = 30.0


class _Revised(Protocol):
    """The answer to a change."""

    @property
    def revision(self) -> int:
        """The revision that contains it."""


Request = TypeVar("Request")
Answer = TypeVar("Answer")
Changed = TypeVar("Changed", bound=_Revised)
Method = Callable[["ControllerAsyncStub"], UnaryMethod[Request, Answer]]
"""A method of the controller's service, by its stub."""


class ControllerClient:
    """Calls the leading controller.

    Every method raises `RequestTimedOut` where no controller has answered in time, or this process has not seen the
    change in time, and what the controller refuses a whole request with.
    """

    def __init__(
        self,
        feed: ClusterStateFeed,
        *,
        clock: Clock | None = None,
        tracing: "Tracing | None" = None,
        tls: "RpcTls | None" = None,
    ) -> None:
        self._feed = feed
        self._clock = clock or SystemClock()
        self._channels = ChannelPool(tracing, tls)

    async def close(self) -> None:
        """Close the connections to controllers."""
        await self._channels.close()

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> list[CreatedTopic]:
        """Create topics; one result per topic, in order."""
        request = pb.CreateTopicsRequest(topics=messages.NEW_TOPIC.to_messages(topics), validate_only=validate_only)
        answer = await self._change(lambda stub: stub.CreateTopics, request, timeout_s)
        return messages.CREATED_TOPIC.from_messages(answer.topics)

    async def delete_topics(
        self, topics: Sequence[TopicReference], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> list[DeletedTopic]:
        """Delete topics; one result per topic, in order."""
        request = pb.DeleteTopicsRequest(topics=messages.TOPIC_REFERENCE.to_messages(topics))
        answer = await self._change(lambda stub: stub.DeleteTopics, request, timeout_s)
        return messages.DELETED_TOPIC.from_messages(answer.topics)

    async def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> list[GrownTopic]:
        """Add partitions to topics; one result per topic, in order."""
        request = pb.CreatePartitionsRequest(
            topics=messages.NEW_PARTITIONS.to_messages(topics), validate_only=validate_only
        )
        answer = await self._change(lambda stub: stub.CreatePartitions, request, timeout_s)
        return messages.GROWN_TOPIC.from_messages(answer.topics)

    async def alter_configs(
        self,
        resources: Sequence[ConfigResourceChange],
        *,
        replace_all: bool = False,
        validate_only: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> list[AlteredResource]:
        """Change settings of topics and brokers; one result per resource, in order.

        With `replace_all` (Kafka's older AlterConfigs) settings that are not named lose their value.
        """
        request = pb.AlterConfigsRequest(
            resources=messages.RESOURCE_CHANGE.to_messages(resources),
            replace_all=replace_all,
            validate_only=validate_only,
        )
        answer = await self._change(lambda stub: stub.AlterConfigs, request, timeout_s)
        return messages.ALTERED_RESOURCE.from_messages(answer.resources)

    async def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> ProducerIdBlock:
        """Return a fresh block of producer ids; waits for no revision.

        Raises:
            StaleBrokerEpoch: the broker is not registered under this epoch.
        """
        request = pb.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        answer = await self._call(lambda stub: stub.AllocateProducerIds, request, self._deadline(timeout_s))
        return ProducerIdBlock(first=answer.first_producer_id, length=answer.length)

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, changes: Sequence[IsrChange], *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> tuple[list[AlteredIsr], int]:
        """Propose in-sync sets of partitions that a broker leads; one result per change, in order.

        Does not wait for this process's own state: it shows the outcomes at the revision returned. Asks once only: a
        proposal whose answer was lost may be carried out still, which the leader has to reckon with from then on.

        Raises:
            NotController, RpcUnavailable: the controller that was asked leads no longer, or did not answer.
            StaleBrokerEpoch: the broker is not registered under this epoch.
        """
        request = pb.AlterPartitionsRequest(
            broker_id=broker_id, broker_epoch=broker_epoch, changes=messages.ISR_CHANGE.to_messages(changes)
        )
        answer = await self._call_once(lambda stub: stub.AlterPartitions, request, self._deadline(timeout_s))
        return messages.ALTERED_ISR.from_messages(answer.partitions), answer.revision

    async def elect_leaders(
        self,
        type_: ElectionType,
        partitions: Sequence[TopicPartition] | None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> tuple[list[ElectedLeader], int]:
        """Hold elections; one result per partition, and the revision that contains them.

        With None for all partitions of the cluster; those that need no election are left out then.
        """
        request = pb.ElectLeadersRequest(
            type=pb.ElectLeadersRequest.ElectionType.Name(type_),
            partitions=[pb.TopicPartition(topic=topic, index=index) for topic, index in partitions or ()],
            all_partitions=partitions is None,
        )
        answer = await self._change(lambda stub: stub.ElectLeaders, request, timeout_s)
        return messages.ELECTED_LEADER.from_messages(answer.partitions), answer.revision

    async def alter_reassignments(
        self,
        reassignments: Sequence[Reassignment],
        *,
        allow_replication_factor_change: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> tuple[list[AlteredReassignment], int]:
        """Begin, change or cancel reassignments; one result each, in order, and the revision that contains them."""
        request = pb.AlterReassignmentsRequest(
            reassignments=messages.REASSIGNMENT.to_messages(reassignments),
            allow_replication_factor_change=allow_replication_factor_change,
        )
        answer = await self._change(lambda stub: stub.AlterReassignments, request, timeout_s)
        return messages.ALTERED_REASSIGNMENT.from_messages(answer.reassignments), answer.revision

    async def unregister_broker(self, broker_id: int, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> int:
        """Forget a broker that has left for good; returns the revision from which on it is unknown.

        Raises:
            BrokerIdNotRegistered: no broker has this id.
            InvalidRequest: the broker is live, or has records that no other broker has.
        """
        request = pb.UnregisterBrokerRequest(broker_id=broker_id)
        return (await self._change(lambda stub: stub.UnregisterBroker, request, timeout_s)).revision

    async def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Update levels of features, all or none.

        Raises:
            UnsupportedVersion: the leading controller is of a release without levels.
            InvalidRequest, InvalidUpdateVersion: an update is refused.
        """
        request = pb.UpdateFeaturesRequest(
            updates=messages.FEATURE_UPDATE.to_messages(updates), validate_only=validate_only
        )
        await self._change(lambda stub: stub.UpdateFeatures, request, timeout_s)

    async def forward(self, method: str, request: Message, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Any:
        """Have the controller answer a message, and return its answer.

        Args:
            method: of the controller's service, with a `revision` in its answer.
            request: the method's.
            timeout_s: how long to wait.

        Raises:
            KafkaError: the controller refuses.
        """
        return await self._change(lambda stub: getattr(stub, method), request, timeout_s)

    async def _change(self, method: Method[Request, Changed], request: Request, timeout_s: float) -> Changed:
        """Have the leader make a change, and return its answer once this process has seen the change."""
        deadline = self._deadline(timeout_s)
        answer = await self._call(method, request, deadline)
        await self._feed.wait_for_revision(answer.revision, max(0.0, deadline - self._clock.monotonic()))
        return answer

    async def _call(self, method: Method[Request, Answer], request: Request, deadline: float) -> Answer:
        """Ask the leader, and the next one, until one answers.

        Raises:
            KafkaError: the controller's refusal of the whole request.
        """
        leader = self._feed.state.controller
        reason = (
            "no controller leads" if leader is None else f"the request leaves no time to ask controller {leader.id}"
        )
        while (left_s := deadline - self._clock.monotonic()) > 0:
            leader = self._feed.state.controller
            if leader is not None:
                try:
                    return await self._ask(leader, method, request, left_s)
                except (NotController, RpcUnavailable) as error:
                    reason = f"controller {leader.id} at {leader.rpc_address}: {error.message}"
            await asyncio.sleep(min(RETRY_DELAY_S, left_s))
        raise RequestTimedOut(f"no controller answered in time; {reason}")

    async def _call_once(self, method: Method[Request, Answer], request: Request, deadline: float) -> Answer:
        """Ask the leader, as soon as there is one, a single time."""
        left_s = max(0.0, deadline - self._clock.monotonic())
        state = await self._feed.wait_for(lambda state: state.controller is not None, left_s)
        assert state.controller is not None
        return await self._ask(state.controller, method, request, max(0.0, deadline - self._clock.monotonic()))

    async def _ask(
        self, leader: ControllerLeader, method: Method[Request, Answer], request: Request, left_s: float
    ) -> Answer:
        """Ask one leader for as long as it leads; one that hangs is left when another takes over."""
        peer = RpcIdentity(CONTROLLER, leader.id)
        stub = ControllerStub(await self._channels.channel(leader.rpc_address, peer))
        asking = ensure_awaited(method(stub)(request, timeout=left_s))

        def look(_former: ClusterState, new: ClusterState) -> None:
            if new.controller is not None and new.controller.epoch != leader.epoch:
                asking.cancel()

        unsubscribe = self._feed.subscribe(look)
        try:
            await asyncio.wait([asking])
        finally:
            unsubscribe()
            asking.cancel()
        if asking.cancelled():
            raise NotController("another controller leads now")
        try:
            return asking.result()
        except aio.AioRpcError as error:
            self._channels.problems.note_failure(leader.rpc_address, peer, error)
            raise kafka_error(error) from None

    def _deadline(self, timeout_s: float) -> float:
        return self._clock.monotonic() + timeout_s
