"""What the leader does at the target: noted first, under its lease, and deletions looked at again."""

from collections.abc import Callable
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from ottla_core.acls import AclBinding, AclOperation, PatternType, Permission, ResourceKind
from ottla_core.client.cluster_metadata import BrokerAddress, ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla_core.described_settings import TOPIC_CONFIG, TopicSetting
from ottla_mirror.config.mirror_config import MirrorConfig
from ottla_mirror.state.flow_records import FlowState, topic_record
from ottla_mirror.topics.topic_admin import BINDINGS_AT_ONCE, SettingsRefused, TopicChangeRefused
from ottla_mirror.topics.topic_keeper import NoLeader, TopicKeeper

BASE = {"clusters": "A,B", "A.bootstrap.servers": "a:1", "B.bootstrap.servers": "b:1", "A->B.enabled": "true"}


class Topics:
    """A cluster's topics in memory, and what was asked of them, in order."""

    def __init__(self, said: list[str], **partitions: int) -> None:
        self.partitions = {name.replace("_", "."): count for name, count in partitions.items()}
        self.own: dict[str, dict[str, str]] = {}
        self.acls: list[AclBinding] | None = []
        self.unknown: set[str] = set()
        self.before_answer: Callable[[], None] = lambda: None
        self._said = said

    async def metadata(self, topics=None) -> ClusterMetadata:
        brokers = {1: BrokerAddress(id=1, host="h", port=1)}
        found = {name: self._topic(name, count) for name, count in self.partitions.items()}
        return ClusterMetadata(cluster_id="x", controller=1, brokers=brokers, topics=found)

    async def exists(self, topic: str) -> bool:
        self.before_answer()
        return topic in self.partitions

    async def settings(self, topics):
        return {
            name: {
                key: TopicSetting(value=value, source=TOPIC_CONFIG) for key, value in self.own.get(name, {}).items()
            }
            for name in topics
        }

    async def create(self, topic, *, partitions, replication_factor, settings) -> bool:
        if self.unknown & settings.keys():
            raise SettingsRefused("unknown setting")
        self._said.append(f"create {topic} {partitions} {replication_factor} {settings}")
        self.partitions[topic] = partitions
        return True

    async def extend(self, topic, partitions) -> None:
        self._said.append(f"extend {topic} {partitions}")
        self.partitions[topic] = partitions

    async def alter(self, topic, changes) -> None:
        if self.unknown & changes.keys():
            raise SettingsRefused("unknown setting")
        self._said.append(f"alter {topic} {changes}")

    async def topic_acls(self) -> list[AclBinding] | None:
        self.before_answer()
        return self.acls

    async def create_acls(self, bindings) -> None:
        self._said.append(f"create {len(bindings)} acls")

    async def delete(self, topic) -> None:
        self._said.append(f"delete {topic}")
        del self.partitions[topic]

    def _topic(self, name: str, count: int) -> TopicMetadata:
        found = {
            number: PartitionMetadata(index=number, leader=1, leader_epoch=0, replicas=(1,), error=ErrorCode.none)
            for number in range(count)
        }
        return TopicMetadata(name=name, id=UUID(int=1), is_internal=False, partitions=found, error=ErrorCode.none)


class Store:
    def __init__(self, said: list[str]) -> None:
        self.state = FlowState()
        self._said = said

    async def write(self, entries) -> None:
        for entry in entries:
            self._said.append(f"note {entry.key.decode()} {'gone' if entry.value is None else ''}".strip())
            self.state.apply(entry.key, entry.value)


class Bench:
    """A keeper between two clusters."""

    def __init__(self, *, source: dict[str, int], target: dict[str, int] | None = None, **settings: str) -> None:
        self.said: list[str] = []
        self.leads = True
        self.source, self.target = Topics(self.said, **source), Topics(self.said, **(target or {}))
        self.store = Store(self.said)
        written = {key.replace("_", "."): value for key, value in settings.items()}
        flow = MirrorConfig.parse({**BASE, **written}).flows["A->B"]
        self.keeper = TopicKeeper(
            flow, source=self.source, target=self.target, store=self.store, leads=lambda: self.leads
        )


async def test_a_topic_is_noted_before_it_is_made():
    bench = Bench(source={"orders": 3})
    bench.source.own["orders"] = {"cleanup.policy": "compact"}
    plan = await bench.keeper.look()
    assert bench.said == [
        'note ["topic", "A->B", "A.orders"]',
        "create A.orders 3 1 {'cleanup.policy': 'compact'}",
    ]
    assert plan.copied["orders"].partitions == 3


async def test_a_topic_is_waited_for_of_which_the_target_does_not_show_the_new_partitions_yet():
    bench = Bench(source={"orders": 3}, target={"A_orders": 1}, existing_topics="adopt")
    await bench.store.write([topic_record("A->B", "A.orders", "orders", 1)])
    extend, asked_for = bench.target.extend, []

    async def extend_later(topic: str, partitions: int) -> None:
        asked_for.append((topic, partitions))

    bench.target.extend = extend_later
    plan = await bench.keeper.look()
    assert plan.copied["orders"].partitions == 1
    assert plan.waiting == {"orders": "A.orders is given more partitions"}
    await extend(*asked_for[0])
    plan = await bench.keeper.look()
    assert (plan.copied["orders"].partitions, plan.waiting) == (3, {})


async def test_a_worker_that_does_not_lead_any_more_changes_nothing():
    bench = Bench(source={"orders": 3})
    bench.leads = False
    with pytest.raises(NoLeader):
        await bench.keeper.look()
    assert bench.said == []


async def test_a_worker_that_loses_its_lead_while_it_notes_makes_nothing():
    bench = Bench(source={"orders": 3})
    write = bench.store.write

    async def write_and_lose(entries) -> None:
        await write(entries)
        bench.leads = False

    bench.store.write = write_and_lose
    with pytest.raises(NoLeader):
        await bench.keeper.look()
    assert not any(each.startswith("create") for each in bench.said)


async def test_settings_that_the_target_does_not_know_keep_no_topic_from_being_made():
    bench = Bench(source={"orders": 1})
    bench.source.own["orders"] = {"cleanup.policy": "compact", "remote.storage.enable": "true"}
    bench.target.unknown = {"remote.storage.enable"}
    plan = await bench.keeper.look()
    assert bench.said[1:] == ["create A.orders 1 1 {}", "alter A.orders {'cleanup.policy': 'compact'}"]
    assert "orders" in plan.copied


async def test_an_adopted_topic_is_noted():
    bench = Bench(source={"orders": 1}, target={"A_orders": 1}, existing_topics="adopt")
    await bench.keeper.look()
    assert bench.store.state.made_by("A->B") == {"A.orders": "orders"}


@pytest.mark.parametrize("target", [{}, {"A_orders": 3}, {"A_orders": 1}])
async def test_partitions_that_are_added_later_are_not_among_those_that_the_flow_has_begun_with(target):
    bench = Bench(source={"orders": 3}, target=target, existing_topics="adopt")
    await bench.keeper.look()
    assert bench.store.state.began_with("A->B", "A.orders") == 3
    bench.source.partitions["orders"] = 5
    await bench.keeper.look()
    assert bench.target.partitions["A.orders"] == 5
    assert bench.store.state.began_with("A->B", "A.orders") == 3
    del bench.target.partitions["A.orders"]
    await bench.keeper.look()
    assert bench.target.partitions["A.orders"] == 5
    assert bench.store.state.began_with("A->B", "A.orders") == 3, "the copy was made anew, the flow was not"


async def test_a_topic_that_a_former_release_has_noted_counts_its_partitions_from_now_on():
    bench = Bench(source={"orders": 2}, target={"A_orders": 2})
    former = topic_record("A->B", "A.orders", "orders")
    bench.store.state.apply(former.key, former.value)
    await bench.keeper.look()
    assert bench.store.state.began_with("A->B", "A.orders") == 2


async def deletions(bench: Bench, looks: int) -> list[str]:
    for _ in range(looks):
        await bench.keeper.look()
    return [each for each in bench.said if each.startswith("delete")]


def with_a_copy_whose_source_is_gone(**settings: str) -> Bench:
    bench = Bench(source={"kept": 1}, target={"A_gone": 1, "A_kept": 1}, **settings)
    for topic in ("gone", "kept"):
        entry = topic_record("A->B", f"A.{topic}", topic)
        bench.store.state.apply(entry.key, entry.value)
    return bench


async def test_a_copy_is_deleted_only_if_asked_for_and_after_two_looks():
    assert await deletions(with_a_copy_whose_source_is_gone(), 3) == []
    bench = with_a_copy_whose_source_is_gone(sync_topic_deletions_enabled="true")
    assert await deletions(bench, 1) == []
    assert await deletions(bench, 1) == ["delete A.gone"]
    assert bench.store.state.made_by("A->B") == {"A.kept": "kept"}


async def test_a_topic_that_is_back_just_before_its_copy_is_deleted_keeps_it():
    bench = with_a_copy_whose_source_is_gone(sync_topic_deletions_enabled="true")
    bench.source.before_answer = lambda: bench.source.partitions.setdefault("gone", 1)
    assert await deletions(bench, 2) == []


async def test_a_worker_that_loses_its_lead_just_before_deletes_nothing():
    bench = with_a_copy_whose_source_is_gone(sync_topic_deletions_enabled="true")

    def lose() -> None:
        bench.leads = False

    bench.source.before_answer = lose
    with pytest.raises(NoLeader):
        await deletions(bench, 2)
    assert not any(each.startswith("delete") for each in bench.said)


def rights_to_read(*names: str) -> list[AclBinding]:
    return [
        AclBinding(
            kind=ResourceKind.TOPIC,
            pattern=PatternType.LITERAL,
            name="orders",
            principal=f"User:{name}",
            host="*",
            operation=AclOperation.READ,
            permission=Permission.ALLOW,
        )
        for name in names
    ]


async def test_many_access_control_lists_are_created_in_several_requests():
    bench = Bench(source={"orders": 1}, target={"A_orders": 1}, existing_topics="adopt")
    plan = await bench.keeper.look()
    bench.said.clear()
    bench.source.acls = rights_to_read(*map(str, range(BINDINGS_AT_ONCE + 1)))
    await bench.keeper.sync_acls(plan.copied)
    assert bench.said == [f"create {BINDINGS_AT_ONCE} acls", "create 1 acls"]


async def test_a_worker_that_loses_its_lead_while_it_looks_creates_no_access_control_list():
    bench = Bench(source={"orders": 1}, target={"A_orders": 1}, existing_topics="adopt")
    plan = await bench.keeper.look()
    bench.said.clear()
    bench.source.acls = rights_to_read("ann")

    def lose_lead() -> None:
        bench.leads = False

    bench.target.before_answer = lose_lead
    with pytest.raises(NoLeader):
        await bench.keeper.sync_acls(plan.copied)
    assert bench.said == []


async def test_a_target_without_an_authorizer_is_told_of_and_a_source_without_one_has_nothing_to_copy():
    bench = Bench(source={"orders": 1}, target={"A_orders": 1}, existing_topics="adopt")
    plan = await bench.keeper.look()
    bench.source.acls, bench.target.acls = rights_to_read("ann"), None
    with pytest.raises(TopicChangeRefused, match=r"authorizer\.class\.name"):
        await bench.keeper.sync_acls(plan.copied)
    bench.source.acls = None
    await bench.keeper.sync_acls(plan.copied)
