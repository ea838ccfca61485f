"""Which processes `ottla up` runs."""

from pathlib import Path

from ottla.local.cluster_directory import ClusterDirectory
from ottla.local.plan import ClusterOptions, ClusterPlan, internal_port_count, plan_cluster
from ottla.local.settings import parse_setting


def plan(options: ClusterOptions) -> ClusterPlan:
    ports = list(range(20_000, 20_000 + internal_port_count(options)))
    return plan_cluster(options, ClusterDirectory(Path("/data")), ports, Path("/bin/etcd"))


def properties(made: ClusterPlan, name: str) -> dict[str, str]:
    text = made.files[Path(f"/data/config/{name}.properties")]
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def test_etcd_starts_before_controllers_and_they_before_coordinators_and_brokers():
    made = plan(ClusterOptions(brokers=2, controllers=2, coordinators=2, base_port=9092))
    names = [[spec.name for spec in stage] for stage in made.stages]
    assert names == [
        ["etcd"],
        ["controller-1", "controller-2"],
        ["group-coordinator-1", "group-coordinator-2", "broker-1", "broker-2"],
    ]


def test_a_coordinator_is_told_its_id_its_listeners_and_etcd_and_nothing_of_brokers():
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=2, base_port=9092))
    spec = next(spec for spec in made.processes if spec.name == "group-coordinator-2")
    assert spec.command[1:] == (
        *("-m", "ottla_group_coordinator.app"),
        *("--config", "/data/config/group-coordinator-2.properties"),
    )
    assert f"{spec.host}:{spec.port}" == spec.rpc
    assert properties(made, spec.name) == {
        "node.id": "2",
        "rpc.listener": spec.rpc,
        "metrics.listener": (spec.metrics or "").removeprefix("http://").removesuffix("/metrics"),
        "etcd.endpoints": f"http://127.0.0.1:{made.processes[0].port}",
        "member.lease.ttl.ms": "2000",
    }


def test_a_cluster_can_do_without_coordinators():
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=0, base_port=9092))
    assert [spec.role for spec in made.processes] == ["etcd", "controller", "broker"]


def test_brokers_listen_on_consecutive_ports_and_the_bootstrap_names_them():
    made = plan(ClusterOptions(brokers=2, controllers=1, coordinators=1, base_port=9092))
    assert made.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert properties(made, "broker-2")["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert properties(made, "broker-2")["log.dirs"] == "/data/broker-2"


def test_the_topic_that_keeps_the_groups_has_no_more_replicas_than_there_are_brokers():
    key = "offsets.topic.replication.factor"
    for brokers, expected in ((1, "1"), (2, "2"), (5, "3")):
        made = plan(ClusterOptions(brokers=brokers, controllers=1, coordinators=1, base_port=9092))
        assert properties(made, "broker-1")[key] == expected
    settings = (parse_setting(f"broker:{key}=2"),)
    made = plan(ClusterOptions(brokers=5, controllers=1, coordinators=1, base_port=9092, settings=settings))
    assert properties(made, "broker-1")[key] == "2"


def test_no_two_listeners_share_a_port():
    made = plan(ClusterOptions(brokers=3, controllers=2, coordinators=2, base_port=9092))
    addresses = [address for spec in made.processes for address in {f"{spec.host}:{spec.port}", spec.rpc} if address]
    metrics = [spec.metrics for spec in made.processes if spec.metrics]
    addresses += [page.removeprefix("http://").removesuffix("/metrics") for page in metrics]
    assert len(addresses) == len(set(addresses))


def test_services_use_the_embedded_etcd_with_a_short_lease():
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=1, base_port=9092))
    etcd = made.processes[0]
    for name in ("controller-1", "group-coordinator-1", "broker-1"):
        assert properties(made, name)["etcd.endpoints"] == f"http://127.0.0.1:{etcd.port}"
        assert properties(made, name)["member.lease.ttl.ms"] == "2000"


def test_a_foreign_etcd_is_not_started_and_keeps_the_lease_that_services_have():
    endpoints = ("http://10.0.0.1:2379", "http://10.0.0.2:2379")
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=1, base_port=9092, etcd_endpoints=endpoints))
    assert [spec.role for spec in made.processes] == ["controller", "group-coordinator", "broker"]
    assert properties(made, "broker-1")["etcd.endpoints"] == ",".join(endpoints)
    assert "member.lease.ttl.ms" not in properties(made, "broker-1")


def test_settings_reach_their_role_and_hide_the_variable_of_the_same_key():
    settings = (
        parse_setting("broker:log.retention.hours=1"),
        parse_setting("group-coordinator:group.max.size=9"),
    )
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=1, base_port=9092, settings=settings))
    assert properties(made, "broker-1")["log.retention.hours"] == "1"
    assert "log.retention.hours" not in properties(made, "controller-1")
    assert properties(made, "group-coordinator-1")["group.max.size"] == "9"
    assert "group.max.size" not in properties(made, "broker-1")
    broker = made.processes[-1]
    assert {"OTTLA_LOG_RETENTION_HOURS", "OTTLA_NODE_ID"} <= broker.hidden_variables
    assert "OTTLA_MESSAGE_MAX_BYTES" not in broker.hidden_variables
