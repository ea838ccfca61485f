"""What the cluster scenarios share: a real etcd, a client of it, and controllers and members that are ended."""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.cluster.controller_rpc.controller_api import CreatedTopic, NewTopic
from ottla_core.cluster.controller_rpc.controller_client import DEFAULT_TIMEOUT_S, ControllerClient
from ottla_core.cluster.etcd.client import EtcdClient, TransactionResult
from ottla_core.cluster.etcd.errors import WriteOutcomeUnknown
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.features import SUPPORTED
from ottla_core.cluster.state.model import NO_EPOCH, Member, Role
from ottla_core.cluster.view.feed import ClusterStateFeed
from ottla_proto.gen.etcd.rpc_pb2 import Compare, RequestOp
from tests.support.clusters.controller_process import ControllerProcess
from tests.support.clusters.etcd_process import EtcdProcess
from tests.support.servers.faulty_proxy import FaultyProxy

CLUSTER = "test"
SHORT_TTL_MS = 1000
"""The shortest lease that the tests' etcd grants; for tests in which one is lost."""

LONG_TTL_MS = 30_000
"""A lease that is not lost, however busy the machine is."""

WRITTEN_WITHIN_S = 30.0
SEEN_WITHIN_S = 10.0


@pytest.fixture
def etcd_process(tmp_path: Path) -> Iterator[EtcdProcess]:
    process = EtcdProcess(tmp_path / "etcd")
    process.start()
    yield process
    process.stop()


class PersistentEtcdClient(EtcdClient):
    """Writes what has no condition again where etcd has not answered in time: a machine may stand still that long."""

    async def transaction(
        self, compares: Sequence[Compare], success: Sequence[RequestOp], failure: Sequence[RequestOp] = ()
    ) -> TransactionResult:
        """Run `success` if all compares hold, else `failure`; again and again without compares."""
        deadline_s = time.monotonic() + WRITTEN_WITHIN_S
        while True:
            try:
                return await super().transaction(compares, success, failure)
            except WriteOutcomeUnknown:
                if compares or time.monotonic() > deadline_s:
                    raise


@pytest.fixture
async def etcd(etcd_process: EtcdProcess) -> AsyncIterator[EtcdClient]:
    client = PersistentEtcdClient([etcd_process.endpoint])
    yield client
    await client.close()


@pytest.fixture
async def proxy(etcd_process: EtcdProcess) -> AsyncIterator[FaultyProxy]:
    """Stands between `proxied_etcd` and etcd."""
    proxy = FaultyProxy(etcd_process.client_port)
    await proxy.start()
    yield proxy
    await proxy.stop()


@pytest.fixture
async def proxied_etcd(proxy: FaultyProxy) -> AsyncIterator[EtcdClient]:
    client = EtcdClient([f"http://127.0.0.1:{proxy.port}"])
    yield client
    await client.close()


@pytest.fixture
async def feed(etcd: EtcdClient) -> AsyncIterator[ClusterStateFeed]:
    feed = ClusterStateFeed(etcd, CLUSTER)
    await feed.start()
    yield feed
    await feed.close()


MakeController = Callable[..., ControllerProcess]


@pytest.fixture
def controller(tmp_path: Path, etcd_process: EtcdProcess) -> Iterator[MakeController]:
    """Starts a controller that is ended in the end: `controller(1)`."""
    started: list[ControllerProcess] = []

    def start(controller_id: int, *settings: str) -> ControllerProcess:
        process = ControllerProcess(
            tmp_path,
            controller_id,
            settings=[
                f"etcd.endpoints={etcd_process.endpoint}",
                f"cluster.name={CLUSTER}",
                f"member.lease.ttl.ms={SHORT_TTL_MS}",
                *settings,
            ],
        )
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.child.kill()


class PersistentControllerClient(ControllerClient):
    """Asks again for topics that the controller has no brokers for: it may not have seen yet who has registered."""

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> list[CreatedTopic]:
        """Create topics; one result per topic, in order."""
        deadline_s = time.monotonic() + SEEN_WITHIN_S
        while True:
            created = await super().create_topics(topics, validate_only=validate_only, timeout_s=timeout_s)
            lacking = all(each.error_code is ErrorCode.invalid_replication_factor for each in created)
            if not lacking or time.monotonic() > deadline_s:
                return created


@pytest.fixture
async def client(feed: ClusterStateFeed) -> AsyncIterator[ControllerClient]:
    client = PersistentControllerClient(feed)
    yield client
    await client.close()


def broker_member(broker_id: int, *, directory_id: UUID | None = None) -> Member:
    """A broker as it would register; each call is a new start of a process."""
    return Member(
        role=Role.BROKER,
        id=broker_id,
        epoch=NO_EPOCH,
        incarnation=uuid4(),
        rpc_address=f"127.0.0.1:{7000 + broker_id}",
        version="test",
        features=SUPPORTED,
        directory_ids=(directory_id or uuid4(),),
    )


def coordinator_member(coordinator_id: int) -> Member:
    """A group coordinator as it would register."""
    return Member(
        role=Role.GROUP_COORDINATOR,
        id=coordinator_id,
        epoch=NO_EPOCH,
        incarnation=uuid4(),
        rpc_address=f"127.0.0.1:{7100 + coordinator_id}",
        version="test",
        features=SUPPORTED,
    )


Join = Callable[..., Membership]


@pytest.fixture
async def membership_of(etcd: EtcdClient) -> AsyncIterator[Join]:
    """Makes a membership that is closed in the end: `membership_of(member)`, still to be started."""
    async with AsyncExitStack() as closing:

        def make(
            member: Member,
            *,
            client: EtcdClient | None = None,
            ttl_ms: int = LONG_TTL_MS,
            on_change: Callable[[], None] | None = None,
            resume: bool = False,
        ) -> Membership:
            membership = Membership(
                client or etcd, CLUSTER, member, lease_ttl_ms=ttl_ms, on_change=on_change, resume=resume
            )
            closing.push_async_callback(membership.close)
            return membership

        yield make
