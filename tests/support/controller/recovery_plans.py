"""Facts of brokers, plans made of them, and what the controller makes of a plan when it looks for the first time."""

import json
from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from ottla.recover.merging import RecoveryPlan, plan_recovery
from ottla_controller.broker_standing import standings
from ottla_controller.leader_election import elections
from ottla_controller.partition_change import TopicRules
from ottla_core.cluster.state import codec
from ottla_core.cluster.state.codec import TopicRecord
from ottla_core.cluster.state.keys import RegistrationKey
from ottla_core.cluster.state.model import BrokerRegistration, Member, PartitionState, Role, Topic
from ottla_core.cluster.state.recovery_facts import BrokerFacts, DirectoryFacts, LogFacts
from ottla_core.cluster.state.state_copy import StateCopy, StoredValue

FLIGHTS = UUID(int=1)
LINK = UUID(int=77)


def directory_id(broker: int) -> UUID:
    return UUID(int=100 + broker)


def log(end_offset: int = 10, *, epoch: int = 4, index: int = 0, topic: str = "flights", **more: object) -> LogFacts:
    facts = LogFacts(topic=topic, index=index, topic_id=FLIGHTS, last_epoch=epoch, end_offset=end_offset)
    return replace(facts, **more)  # type: ignore[arg-type]


def state(revision: int = 50, *, brokers: int = 2, **entries: bytes) -> StateCopy:
    """A copy with a topic of one partition; `entries` name keys with `__` for `/`."""
    partition = PartitionState(
        topic_id=FLIGHTS, index=0, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=7, leader_broker_epoch=30
    )
    found = {
        "id": codec.encode_cluster_id("ours"),
        "topics/flights": codec.encode_topic(
            TopicRecord(id=FLIGHTS, partition_count=1, configs={"retention.ms": "5"})
        ),
        f"partitions/{FLIGHTS}/0": codec.encode_partition(partition),
        **{key.replace("__", "/"): value for key, value in entries.items()},
    }
    for broker in range(1, brokers + 1):
        found.setdefault(
            f"registrations/{broker}",
            codec.encode_registration(
                BrokerRegistration(broker_id=broker, broker_epoch=30, directory_ids=(directory_id(broker),))
            ),
        )
    return StateCopy(
        cluster_name="prod",
        cluster_id="ours",
        revision=revision,
        entries={key: StoredValue(10, value) for key, value in found.items()},
    )


def facts(broker: int, copy: StateCopy | None, *logs: LogFacts, **directory: object) -> BrokerFacts:
    described = DirectoryFacts(
        path=f"/{broker}",
        directory_id=directory_id(broker),
        copy_position=None if copy is None else copy.position,
        logs=logs or (log(),),
    )
    return BrokerFacts(
        broker_id=broker,
        cluster_id="ours",
        directories=(replace(described, **directory),),  # type: ignore[arg-type]
        copy=copy,
        copy_is_sure=copy is not None,
    )


def plan(*of: BrokerFacts, **more: object) -> RecoveryPlan:
    return plan_recovery(of, now_ms=1_000, **more)  # type: ignore[arg-type]


def epoch_of(made: RecoveryPlan, broker: int) -> object:
    return json.loads(made.entries[f"registrations/{broker}"])["broker_epoch"]


def first_look(
    made: RecoveryPlan, of: Collection[BrokerFacts], *, allows_unclean: bool = False
) -> dict[tuple[str, int], PartitionState]:
    """What the controller makes of a plan once the inspected brokers, and no others, have registered, by its rules.

    They come with the directories that were inspected, and have lost nothing since.
    """
    live = {
        each.broker_id: Member(
            role=Role.BROKER,
            id=each.broker_id,
            epoch=500 + each.broker_id,
            incarnation=UUID(int=each.broker_id),
            rpc_address="",
            version="1",
            directory_ids=tuple(found.directory_id for found in each.directories if found.directory_id is not None),
        )
        for each in of
    }
    registrations = {
        int(key.removeprefix("registrations/")): codec.decode_registration(
            RegistrationKey(int(key.removeprefix("registrations/"))), value, 1
        )
        for key, value in made.entries.items()
        if key.startswith("registrations/")
    }
    partitions = [
        (Topic(name=each.topic, id=each.state.topic_id, partitions=(), configs={}, mod_revision=1), each.state)
        for each in made.partitions
    ]
    changed = elections(
        partitions,
        standings(live, registrations),
        rules_of=lambda _topic: TopicRules(allows_unclean=allows_unclean),
    )
    now = {(each.topic_id, each.index): each for each in changed}
    return {
        (each.topic, each.state.index): now.get((each.state.topic_id, each.state.index), each.state)
        for each in made.partitions
    }
