"""Which updates of feature levels are carried out."""

from dataclasses import replace
from uuid import uuid4

import pytest

from ottla_controller.feature_updates import updated_levels
from ottla_core.cluster.controller_rpc.controller_api import FeatureUpdate, FeatureUpdateType
from ottla_core.cluster.state.features import (
    NEWEST_LEVEL,
    OTTLA_VERSION,
    SUPPORTED,
    TRANSACTION_VERSION,
    UNSAID,
    FeatureRange,
    FinalizedFeatures,
)
from ottla_core.cluster.state.model import ClusterState, Topic
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, SecurityState
from ottla_core.errors import InvalidRequest, InvalidUpdateVersion
from ottla_core.shards import TRANSACTION_TOPIC
from tests.support.controller.replica_rules import live, remembered

UP = FeatureUpdate(feature=OTTLA_VERSION, level=2)
DOWN = FeatureUpdate(feature=OTTLA_VERSION, level=1, type=FeatureUpdateType.SAFE_DOWNGRADE)
TRANSACTIONS_UP = FeatureUpdate(feature=TRANSACTION_VERSION, level=2)
TRANSACTIONS_DOWN = FeatureUpdate(feature=TRANSACTION_VERSION, level=0, type=FeatureUpdateType.SAFE_DOWNGRADE)


def upgraded_cluster(level: int = 1, **others: int) -> ClusterState:
    """Two live brokers and one that is away, all of this release; `others` are features with _ in place of dots."""
    return ClusterState(
        brokers={number: replace(broker, features=SUPPORTED) for number, broker in live("1@5", "2@6").items()},
        registrations={
            number: replace(each, features=SUPPORTED) for number, each in remembered("1@5", "2@6", "3@7").items()
        },
        features=FinalizedFeatures(
            levels={OTTLA_VERSION: level, **{name.replace("_", "."): each for name, each in others.items()}}
        ),
    )


def test_a_level_that_all_have_is_reached_and_left() -> None:
    assert updated_levels([UP], upgraded_cluster()) == {OTTLA_VERSION: 2}
    assert updated_levels([UP], upgraded_cluster(2)) == {OTTLA_VERSION: 2}
    assert updated_levels([DOWN], upgraded_cluster(2)) == {OTTLA_VERSION: 1}


def test_the_level_of_security_is_not_left_while_there_is_anything_that_needs_it() -> None:
    quotas = {QuotaEntity(((QuotaEntityKind.USER, None),)): {"producer_byte_rate": 1.0}}
    state = replace(upgraded_cluster(3), security=SecurityState(client_quotas=quotas))
    with pytest.raises(InvalidUpdateVersion, match="access control lists, users, tokens or quotas"):
        updated_levels([replace(DOWN, level=2)], state)
    assert updated_levels([replace(DOWN, level=2)], upgraded_cluster(3)) == {OTTLA_VERSION: 2}


def test_versions_of_transactions_need_the_level_of_transactions() -> None:
    both = {OTTLA_VERSION: 4, TRANSACTION_VERSION: 2}
    assert updated_levels([TRANSACTIONS_UP], upgraded_cluster(4)) == both
    assert updated_levels([TRANSACTIONS_UP, replace(UP, level=4)], upgraded_cluster(3)) == both
    with pytest.raises(InvalidUpdateVersion, match=r"needs level 4"):
        updated_levels([TRANSACTIONS_UP], upgraded_cluster(3))
    with pytest.raises(InvalidUpdateVersion, match=r"downgrade ottla\.version=1 transaction\.version=0`"):
        updated_levels([DOWN], upgraded_cluster(4, transaction_version=1))


def test_a_version_of_transactions_that_is_given_up_is_stored_no_longer_so_that_former_releases_come_back() -> None:
    state = upgraded_cluster(4, transaction_version=2)
    assert updated_levels([TRANSACTIONS_DOWN, DOWN], state) == {OTTLA_VERSION: 1}
    assert updated_levels([replace(TRANSACTIONS_DOWN, level=1)], state) == {OTTLA_VERSION: 4, TRANSACTION_VERSION: 1}
    former = replace(state.brokers[2], features=(FeatureRange(OTTLA_VERSION, 1, 4),))
    state = replace(state, brokers={**state.brokers, 2: former})
    assert updated_levels([TRANSACTIONS_DOWN], state) == {OTTLA_VERSION: 4}
    with pytest.raises(InvalidUpdateVersion, match="broker 2 does not have this feature"):
        updated_levels([TRANSACTIONS_UP], replace(state, features=upgraded_cluster(4).features))


def test_the_level_of_transactions_is_not_left_while_there_is_their_topic() -> None:
    topic = Topic(name=TRANSACTION_TOPIC, id=uuid4(), partitions=())
    state = replace(upgraded_cluster(4), topics={TRANSACTION_TOPIC: topic})
    with pytest.raises(InvalidUpdateVersion, match="the topic __transaction_state"):
        updated_levels([replace(DOWN, level=3)], state)
    assert updated_levels([replace(DOWN, level=3)], upgraded_cluster(4)) == {OTTLA_VERSION: 3}


def test_a_live_process_without_the_level_is_named() -> None:
    state = upgraded_cluster()
    state = replace(state, brokers={**state.brokers, 2: replace(state.brokers[2], features=UNSAID)})
    with pytest.raises(InvalidUpdateVersion, match=r"broker 2 has level 1 of ottla\.version"):
        updated_levels([UP], state)


def test_a_broker_that_is_away_and_may_come_back_without_the_level_is_named() -> None:
    state = upgraded_cluster()
    state = replace(state, registrations={**state.registrations, 3: replace(remembered("3@7")[3], features=UNSAID)})
    with pytest.raises(InvalidUpdateVersion, match="broker 3, which is away"):
        updated_levels([UP], state)


@pytest.mark.parametrize(
    ("update", "level", "reason"),
    [
        (replace(UP, level=NEWEST_LEVEL + 1), 1, f"has levels 1 to {NEWEST_LEVEL}"),
        (replace(UP, level=0), 1, "ask for a downgrade"),
        (replace(DOWN, level=0), 1, f"has levels 1 to {NEWEST_LEVEL}"),
        (replace(UP, level=1), 2, "ask for a downgrade"),
        (replace(DOWN, level=2), 1, "ask for an upgrade"),
        (replace(UP, type=9), 1, "no upgrade type 9"),
        (replace(UP, feature="metadata.version"), 1, "does not have this feature"),
        (replace(DOWN, feature="metadata.version", level=0), 1, "does not have this feature"),
    ],
)
def test_refusals(update: FeatureUpdate, level: int, reason: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=reason):
        updated_levels([update], upgraded_cluster(level))


@pytest.mark.parametrize("updates", [[], [UP, UP]])
def test_each_feature_is_named_once(updates: list[FeatureUpdate]) -> None:
    with pytest.raises(InvalidRequest):
        updated_levels(updates, upgraded_cluster())
