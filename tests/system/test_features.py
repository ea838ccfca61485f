"""Levels of features as clients see and update them: ApiVersions and UpdateFeatures of a real cluster."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest as ApiVersionsRequestV3
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v0 import request as v0
from kio.schema.update_features.v1 import request as v1
from kio.schema.update_features.v2 import request as v2
from kio.static.primitive import i8, i16, i32Timedelta

from ottla_core.cluster.state.features import NEWEST_LEVEL, TRANSACTION_LEVEL
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla

pytestmark = pytest.mark.slow

FEATURE, TRANSACTIONS = "ottla.version", "transaction.version"
TIMEOUT = i32Timedelta.parse(timedelta(seconds=30))
UPGRADE, DOWNGRADE = 1, 2


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaCluster(tmp_path_factory.mktemp("features") / "cluster") as running:
        yield running.bootstrap


@pytest.fixture(scope="module")
def client(bootstrap: str) -> Iterator[RawClient]:
    with RawClient.to(bootstrap) as connected:
        yield connected


def level_and_epoch(client: RawClient) -> tuple[int, int]:
    response = client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"))
    supported = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    assert supported == {FEATURE: (1, NEWEST_LEVEL), TRANSACTIONS: (0, 2)}
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    assert all(each.min_version_level == each.max_version_level for each in response.finalized_features)
    assert finalized.get(TRANSACTIONS) == (None if finalized[FEATURE] < TRANSACTION_LEVEL else 2)
    return finalized[FEATURE], response.finalized_features_epoch


def update(client: RawClient, type_: int, *, validate_only: bool = False, **levels: int) -> Any:
    """Asks for levels; of `ottla_version` and so on."""
    wanted = tuple(
        v2.FeatureUpdateKey(feature=name.replace("_", "."), max_version_level=i16(level), upgrade_type=i8(type_))
        for name, level in levels.items()
    )
    return client.ask(v2.UpdateFeaturesRequest(timeout=TIMEOUT, feature_updates=wanted, validate_only=validate_only))


def test_a_level_is_given_up_and_finalised_again(client: RawClient) -> None:
    level, epoch = level_and_epoch(client)
    assert level == NEWEST_LEVEL
    down = {"ottla_version": 1, "transaction_version": 0}
    assert update(client, DOWNGRADE, validate_only=True, **down).error_code is ErrorCode.none
    assert level_and_epoch(client) == (NEWEST_LEVEL, epoch)
    assert update(client, DOWNGRADE, **down).error_code is ErrorCode.none
    level, later_epoch = level_and_epoch(client)
    assert level == 1
    assert later_epoch > epoch

    wanted = tuple(
        v1.FeatureUpdateKey(feature=name, max_version_level=i16(level), upgrade_type=i8(UPGRADE))
        for name, level in ((FEATURE, NEWEST_LEVEL), (TRANSACTIONS, 2))
    )
    response = client.ask(v1.UpdateFeaturesRequest(timeout=TIMEOUT, feature_updates=wanted, validate_only=False))
    assert [(each.feature, each.error_code) for each in response.results] == [
        (FEATURE, ErrorCode.none), (TRANSACTIONS, ErrorCode.none),
    ]  # fmt: skip
    assert level_and_epoch(client)[0] == NEWEST_LEVEL


def test_refusals_say_why(client: RawClient) -> None:
    response = update(client, UPGRADE, ottla_version=NEWEST_LEVEL + 1)
    assert response.error_code is ErrorCode.invalid_update_version
    assert f"levels 1 to {NEWEST_LEVEL} of ottla.version" in response.error_message
    assert update(client, UPGRADE, ottla_version=1).error_code is ErrorCode.invalid_update_version
    assert update(client, UPGRADE, no_such=1).error_code is ErrorCode.invalid_update_version
    response = update(client, DOWNGRADE, ottla_version=1)
    assert response.error_code is ErrorCode.invalid_update_version
    assert "transaction.version cannot be at level 2" in response.error_message
    wanted = v0.FeatureUpdateKey(feature=FEATURE, max_version_level=i16(1), allow_downgrade=False)
    response = client.ask(v0.UpdateFeaturesRequest(timeout=TIMEOUT, feature_updates=(wanted,)))
    assert response.error_code is ErrorCode.invalid_update_version
    assert level_and_epoch(client)[0] == NEWEST_LEVEL


def test_a_client_that_asks_in_an_older_version_is_not_told_of_features_that_begin_at_level_0(
    client: RawClient,
) -> None:
    response = client.ask(ApiVersionsRequestV3(client_software_name="test", client_software_version="1"))
    assert [each.name for each in response.supported_features] == [FEATURE]
    assert {each.name for each in response.finalized_features} == {FEATURE, TRANSACTIONS}


def test_the_command_shows_levels_takes_them_back_and_raises_them(client: RawClient, bootstrap: str) -> None:
    features = Ottla(bootstrap)
    features.run("cluster", "features", "downgrade", "ottla.version=1", "transaction.version=0", "--dry-run")
    assert level_and_epoch(client)[0] == NEWEST_LEVEL
    features.run("cluster", "features", "downgrade", "ottla.version=1", "transaction.version=0")
    assert features.json("cluster", "features", "show")["features"] == [
        {"feature": FEATURE, "level": 1, "min_level": 1, "max_level": NEWEST_LEVEL},
        {"feature": TRANSACTIONS, "level": 0, "min_level": 0, "max_level": 2},
    ]
    assert features.json("cluster", "features", "upgrade")["updates"] == [
        {"feature": FEATURE, "former_level": 1, "level": NEWEST_LEVEL},
        {"feature": TRANSACTIONS, "former_level": 0, "level": 2},
    ]
    assert level_and_epoch(client)[0] == NEWEST_LEVEL
    refused = features.run("cluster", "features", "upgrade", f"ottla.version={NEWEST_LEVEL + 1}", fails_with=1)
    assert f"levels 1 to {NEWEST_LEVEL} of ottla.version".encode() in refused.stderr
