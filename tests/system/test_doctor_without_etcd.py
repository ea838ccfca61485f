"""`ottla doctor` with the addresses of brokers alone, while etcd is away: brokers serve, and say what they lack."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.clusters.doctor import Doctor, standing_still
from tests.support.clusters.ottla_cluster import OttlaCluster
from tests.support.clusters.replicated_cluster import ReplicatedCluster
from tests.support.clusters.secured_cluster import SecuredCluster

pytestmark = pytest.mark.slow

OUT_OF_DATE = ("state-out-of-date", "the cluster's state", "unavailable")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedCluster]:
    with ReplicatedCluster(tmp_path_factory.mktemp("doctor-without-etcd"), brokers=2) as made:
        made.create_topic("orders")
        yield made


@pytest.mark.parametrize(
    ("away", "back"),
    [
        pytest.param(lambda cluster: cluster.etcd.pause(), lambda cluster: cluster.etcd.resume(), id="hangs"),
        pytest.param(lambda cluster: cluster.etcd.stop(), lambda cluster: cluster.etcd.start(), id="has ended"),
    ],
)
def test_etcd_that_is_away_is_told_by_the_brokers_until_it_is_back(
    cluster: ReplicatedCluster, away: Callable[[ReplicatedCluster], None], back: Callable[[ReplicatedCluster], None]
) -> None:
    doctor = Doctor({"OTTLA_BOOTSTRAP": cluster.bootstrap})
    doctor.expect_health()
    away(cluster)
    try:
        doctor.expect(OUT_OF_DATE)
        described = doctor.ottla("cluster", "describe")
        assert "controller        unknown" in described.stdout, described
        url = cluster.etcd.endpoint
        doctor.expect(("etcd-away", f"etcd {url}", "unavailable"), arguments=("--etcd", url))
    finally:
        back(cluster)
    doctor.expect_health()


def as_typed(settings: dict[str, str]) -> tuple[str, ...]:
    """A client's settings, but for the address, as the command takes them."""
    pairs = [f"{name}={value}" for name, value in settings.items() if name != "bootstrap.servers"]
    return tuple(word for each in pairs for word in ("-X", each))


def test_a_secured_cluster_tells_its_administrator(tmp_path: Path) -> None:
    with OttlaCluster(tmp_path / "cluster", arguments=("--secure",)) as local:
        made = tmp_path / "made"
        made.mkdir()
        secured = SecuredCluster(local, made)
        typed = as_typed(secured.client_settings())
        doctor = Doctor({"OTTLA_BOOTSTRAP": local.bootstrap})
        doctor.expect_health(*typed)
        refused = json.loads(doctor.ottla("doctor", "--json", *as_typed(secured.client("guest"))).stdout)["not_seen"]
        assert "CLUSTER_AUTHORIZATION_FAILED" in next(each for each in refused if each.startswith("the controllers"))
        with standing_still(local, "etcd", 1):
            doctor.expect(OUT_OF_DATE, arguments=typed)
            Doctor.of(local).expect_only("process-not-ready", "etcd-1", "unavailable")
        doctor.expect_health(*typed)
