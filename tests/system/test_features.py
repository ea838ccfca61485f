"""Levels of features as clients see and update them: ApiVersions and UpdateFeatures of a real cluster."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v0 import request as v0
from kio.schema.update_features.v1 import request as v1
from kio.schema.update_features.v2 import request as v2
from kio.static.primitive import i8, i16, i32Timedelta

from ottla_core.cluster.state.features import NEWEST_LEVEL
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.ottla_command import Ottla

pytestmark = pytest.mark.slow

FEATURE = "ottla.version"
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
    (supported,) = response.supported_features
    assert (supported.name, supported.min_version, supported.max_version) == (FEATURE, 1, NEWEST_LEVEL)
    (finalized,) = response.finalized_features
    assert finalized.name == FEATURE
    assert finalized.min_version_level == finalized.max_version_level
    return finalized.max_version_level, response.finalized_features_epoch


def update(client: RawClient, level: int, type_: int, *, validate_only: bool = False, feature: str = FEATURE) -> Any:
    wanted = v2.FeatureUpdateKey(feature=feature, max_version_level=i16(level), upgrade_type=i8(type_))
    return client.ask(
        v2.UpdateFeaturesRequest(timeout=TIMEOUT, feature_updates=(wanted,), validate_only=validate_only)
    )


def test_a_level_is_given_up_and_finalised_again(client: RawClient) -> None:
    level, epoch = level_and_epoch(client)
    assert level == NEWEST_LEVEL
    assert update(client, 1, DOWNGRADE, validate_only=True).error_code is ErrorCode.none
    assert level_and_epoch(client) == (NEWEST_LEVEL, epoch)
    assert update(client, 1, DOWNGRADE).error_code is ErrorCode.none
    level, later_epoch = level_and_epoch(client)
    assert level == 1
    assert later_epoch > epoch

    wanted = v1.FeatureUpdateKey(feature=FEATURE, max_version_level=i16(NEWEST_LEVEL), upgrade_type=i8(UPGRADE))
    response = client.ask(v1.UpdateFeaturesRequest(timeout=TIMEOUT, feature_updates=(wanted,), validate_only=False))
    assert [(each.feature, each.error_code) for each in response.results] == [(FEATURE, ErrorCode.none)]
    assert level_and_epoch(client)[0] == NEWEST_LEVEL


def test_refusals_say_why(client: RawClient) -> None:
    response = update(client, NEWEST_LEVEL + 1, UPGRADE)
    assert response.error_code is ErrorCode.invalid_update_version
    assert f"levels 1 to {NEWEST_LEVEL} of ottla.version" in response.error_message
    assert update(client, 1, UPGRADE).error_code is ErrorCode.invalid_update_version
    assert update(client, 1, UPGRADE, feature="no.such").error_code is ErrorCode.invalid_update_version
    wanted = v0.FeatureUpdateKey(feature=FEATURE, max_version_level=i16(1), allow_downgrade=False)
    response = client.ask(v0.UpdateFeaturesRequest(timeout=TIMEOUT, feature_updates=(wanted,)))
    assert response.error_code is ErrorCode.invalid_update_version
    assert level_and_epoch(client)[0] == NEWEST_LEVEL


def test_the_command_shows_levels_takes_them_back_and_raises_them(client: RawClient, bootstrap: str) -> None:
    features = Ottla(bootstrap)
    features.run("cluster", "features", "downgrade", "ottla.version=1", "--dry-run")
    assert level_and_epoch(client)[0] == NEWEST_LEVEL
    features.run("cluster", "features", "downgrade", "ottla.version=1")
    (shown,) = features.json("cluster", "features", "show")["features"]
    assert shown == {"feature": FEATURE, "level": 1, "min_level": 1, "max_level": NEWEST_LEVEL}
    (done,) = features.json("cluster", "features", "upgrade")["updates"]
    assert done == {"feature": FEATURE, "former_level": 1, "level": NEWEST_LEVEL}
    assert level_and_epoch(client)[0] == NEWEST_LEVEL
    refused = features.run("cluster", "features", "upgrade", f"ottla.version={NEWEST_LEVEL + 1}", fails_with=1)
    assert f"levels 1 to {NEWEST_LEVEL} of ottla.version".encode() in refused.stderr
