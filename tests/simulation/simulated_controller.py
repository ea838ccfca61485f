"""A simulated controller: the real one, from its campaign to its writes, without gRPC's server.

What brokers and operators ask of it goes to the real `ActiveController`, which decides and writes through the real
client of etcd; its answers are a result and the revision that shows it, or an error.
"""

from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ottla_controller.active_controller import ActiveController
from ottla_controller.leadership_loop import LeadershipLoop
from ottla_core.cluster.controller_rpc.controller_api import (
    ConfigChange,
    ConfigResourceChange,
    ConfigResourceType,
    ElectionType,
    IsrChange,
    NewTopic,
    Reassignment,
    TopicReference,
)
from ottla_core.cluster.etcd.client import EtcdClient
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import NO_EPOCH, Member, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_core.errors import NotController
from ottla_core.group_config import ConsumerGroupLimits
from ottla_core.topic_partition import TopicPartition
from tests.simulation.fake_etcd import KEYS, FakeEtcd
from tests.simulation.invariants import Invariants
from tests.simulation.network import Answer, Network
from tests.simulation.schedule import Schedule
from tests.simulation.service_process import LEASE_TTL_MS, ServiceProcess

REQUEST_TIMEOUT_S = 3.0
CONFIG = SimpleNamespace(
    cluster_name=KEYS.cluster_name,
    num_partitions=1,
    default_replication_factor=1,
    min_insync_replicas=1,
    unclean_leader_election_enable=False,
    auto_leader_rebalance_enable=True,
    leader_imbalance_check_interval_seconds=4,
    leader_imbalance_per_broker_percentage=10,
    consumer_group_limits=ConsumerGroupLimits,
    delegation_token_expiry_check_interval_ms=60_000,
    scram_bootstrap_users=(),
)


class SimulatedController(ServiceProcess):
    """One controller over all its lives."""

    def __init__(
        self, controller_id: int, schedule: Schedule, network: Network, etcd: FakeEtcd, observer: Invariants
    ) -> None:
        super().__init__(f"controller-{controller_id}", schedule, network, etcd, observer)
        self.controller_id = controller_id
        self._leadership: LeadershipLoop | None = None

    def on_start(self) -> None:
        """Run the controller."""
        self._leadership = None
        super().on_start()

    async def serve(self, etcd: EtcdClient, feed: ClusterStateFeed) -> str:
        """Register and campaign, until the place is lost."""
        member = Member(
            role=Role.CONTROLLER,
            id=self.controller_id,
            epoch=NO_EPOCH,
            incarnation=UUID(int=1000 * self.controller_id + self.life),
            rpc_address=self.sender,
            version="",
        )
        membership = Membership(etcd, KEYS.cluster_name, member, lease_ttl_ms=LEASE_TTL_MS, clock=self.clock)
        config = SimpleNamespace(**vars(CONFIG), node_id=self.controller_id)
        self._leadership = LeadershipLoop(
            config=config,  # type: ignore[arg-type]
            etcd=etcd,
            feed=feed,
            session=membership.session,
            rpc_address=self.sender,
        )
        await membership.start()
        self._leadership.start()
        return str(await membership.wait_failed())

    def _ask(self, ask: Callable[[ActiveController], Coroutine[Any, Any, Any]], answer: Answer) -> None:
        active = self._leadership.active if self._leadership is not None else None
        if active is None:
            answer(NotController("this controller does not lead"))
        else:
            self.answer_later(lambda: ask(active), answer)

    # Requests

    def on_alter_partitions(self, request: tuple[int, int, list[IsrChange]], answer: Answer) -> None:
        """Judge what a broker proposes or reports."""
        self._ask(lambda it: it.replicas.alter_partitions(*request, timeout_s=REQUEST_TIMEOUT_S), answer)

    def on_reassign(self, request: Reassignment, answer: Answer) -> None:
        """Begin or cancel a reassignment."""
        self._ask(
            lambda it: it.replicas.alter_reassignments(
                [request], allow_replication_factor_change=True, timeout_s=REQUEST_TIMEOUT_S
            ),
            answer,
        )

    def on_elect(self, request: tuple[ElectionType, TopicPartition], answer: Answer) -> None:
        """Hold an election that somebody asks for."""
        type_, name = request
        self._ask(lambda it: it.replicas.hold_elections(type_, [name], timeout_s=REQUEST_TIMEOUT_S), answer)

    def on_configure(self, request: tuple[str, str], answer: Answer) -> None:
        """Change a setting of the topic."""
        change = ConfigChange(name=request[0], value=request[1])
        resource = ConfigResourceChange(type=ConfigResourceType.TOPIC, name="t", changes=(change,))
        self._ask(
            lambda it: it.alter_configs(
                [resource], replace_all=False, validate_only=False, timeout_s=REQUEST_TIMEOUT_S
            ),
            answer,
        )

    def on_create_topic(self, request: NewTopic, answer: Answer) -> None:
        """Create a topic."""
        self._ask(lambda it: it.create_topics([request], validate_only=False, timeout_s=REQUEST_TIMEOUT_S), answer)

    def on_delete_topic(self, request: TopicReference, answer: Answer) -> None:
        """Delete a topic."""
        self._ask(lambda it: it.delete_topics([request], timeout_s=REQUEST_TIMEOUT_S), answer)
