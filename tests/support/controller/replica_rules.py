"""Short words for the brokers and partitions that tests of the controller's rules are about."""

from collections.abc import Mapping
from uuid import UUID

from ottla_controller.broker_standing import Standings, due_registrations, standings
from ottla_controller.partition_change import TopicRules
from ottla_core.cluster.state.model import (
    NO_EPOCH,
    NO_LEADER,
    BrokerRegistration,
    ClusterState,
    Member,
    PartitionState,
    Role,
    Topic,
)

ID = UUID(int=1)
DIRECTORY_BASE = 1000


def live(*words: str) -> dict[int, Member]:
    """Registered brokers: `2@6` under epoch 6, shutting down with `!`, with a new directory with `~`.

    With `?` it comes back from an unclean shutdown.
    """
    brokers = {}
    for word in words:
        broker_id, epoch = map(int, word.strip("!~?").split("@"))
        brokers[broker_id] = Member(
            role=Role.BROKER,
            id=broker_id,
            epoch=epoch,
            incarnation=UUID(int=epoch),
            rpc_address="h:1",
            version="1",
            directory_ids=(UUID(int=DIRECTORY_BASE + (epoch if "~" in word else -broker_id)),),
            shutting_down="!" in word,
            intact_since=NO_EPOCH if "?" in word else 0,
        )
    return brokers


def remembered(*words: str) -> dict[int, BrokerRegistration]:
    """What is remembered of brokers, in the same words."""
    return {registration.broker_id: registration for registration in due_registrations(live(*words), {})}


def stand(brokers: Mapping[int, Member], registrations: Mapping[int, BrokerRegistration] | None = None) -> Standings:
    """How live brokers stand; without registrations the controller knows all of them."""
    return standings(brokers, remembered() if registrations is None else registrations)


def partition(
    isr: str,
    leader: str,
    leader_epoch: int = 0,
    *,
    replicas: str = "123",
    eligible: str = "",
    adding: str = "",
    removing: str = "",
    index: int = 0,
) -> PartitionState:
    """A partition from short words: `partition("12", "1@5", 0)`; leader `none` for no leader."""
    leader_id, broker_epoch = (NO_LEADER, NO_EPOCH) if leader == "none" else map(int, leader.split("@"))
    return PartitionState(
        topic_id=ID,
        index=index,
        replicas=ids(replicas),
        isr=ids(isr),
        leader=leader_id,
        leader_epoch=leader_epoch,
        leader_broker_epoch=broker_epoch,
        adding=ids(adding),
        removing=ids(removing),
        partition_epoch=42,
        eligible_leaders=ids(eligible),
    )


def ids(digits: str) -> tuple[int, ...]:
    return tuple(map(int, digits))


def rules(min_insync: int = 1, *, unclean: bool = False) -> TopicRules:
    return TopicRules(min_insync_replicas=min_insync, allows_unclean=unclean)


def state_of(
    *partitions: PartitionState,
    brokers: Mapping[int, Member],
    registrations: Mapping[int, BrokerRegistration] | None = None,
) -> ClusterState:
    """A cluster with one topic `t`."""
    topic = Topic(name="t", id=ID, partitions=partitions)
    return ClusterState(
        brokers=brokers,
        registrations=registrations or {},
        topics={"t": topic},
        topics_by_id={ID: topic},
    )
