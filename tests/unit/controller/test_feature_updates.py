"""Which updates of feature levels are carried out."""

from dataclasses import replace

import pytest

from ottla_controller.feature_updates import updated_levels
from ottla_core.cluster.controller_rpc.controller_api import FeatureUpdate, FeatureUpdateType
from ottla_core.cluster.state.features import OTTLA_VERSION, SUPPORTED, UNSAID, FinalizedFeatures
from ottla_core.cluster.state.model import ClusterState
from ottla_core.cluster.state.security import QuotaEntity, QuotaEntityKind, SecurityState
from ottla_core.errors import InvalidRequest, InvalidUpdateVersion
from tests.support.controller.replica_rules import live, remembered

UP = FeatureUpdate(feature=OTTLA_VERSION, level=2)
DOWN = FeatureUpdate(feature=OTTLA_VERSION, level=1, type=FeatureUpdateType.SAFE_DOWNGRADE)


def upgraded_cluster(level: int = 1) -> ClusterState:
    """Two live brokers and one that is away, all of this release."""
    return ClusterState(
        brokers={number: replace(broker, features=SUPPORTED) for number, broker in live("1@5", "2@6").items()},
        registrations={
            number: replace(each, features=SUPPORTED) for number, each in remembered("1@5", "2@6", "3@7").items()
        },
        features=FinalizedFeatures(levels={OTTLA_VERSION: level}),
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
        (replace(UP, level=4), 1, "has levels 1 to 3"),
        (replace(UP, level=0), 1, "ask for a downgrade"),
        (replace(DOWN, level=0), 1, "has levels 1 to 3"),
        (replace(UP, level=1), 2, "ask for a downgrade"),
        (replace(DOWN, level=2), 1, "ask for an upgrade"),
        (replace(UP, type=9), 1, "no upgrade type 9"),
        (replace(UP, feature="metadata.version"), 1, "does not have this feature"),
    ],
)
def test_refusals(update: FeatureUpdate, level: int, reason: str) -> None:
    with pytest.raises(InvalidUpdateVersion, match=reason):
        updated_levels([update], upgraded_cluster(level))


@pytest.mark.parametrize("updates", [[], [UP, UP]])
def test_each_feature_is_named_once(updates: list[FeatureUpdate]) -> None:
    with pytest.raises(InvalidRequest):
        updated_levels(updates, upgraded_cluster())
