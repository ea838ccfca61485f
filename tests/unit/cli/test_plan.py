"""Which processes `ottla up` runs."""

from pathlib import Path

import pytest

from ottla.local.cluster_directory import ClusterDirectory
from ottla.local.health import HttpHealth
from ottla.local.plan import ClusterOptions, ClusterPlan, ProcessSpec, internal_port_count, plan_cluster
from ottla.local.settings import parse_setting
from ottla_connect.config import WorkerConfig
from ottla_core.cluster.etcd.connection import ATTEMPT_TIMEOUT_S
from ottla_core.rest.settings import Listener
from ottla_mirror.config.mirror_config import MirrorConfig
from ottla_sdk.runtime.java_properties import parse_properties


def plan(options: ClusterOptions) -> ClusterPlan:
    ports = list(range(20_000, 20_000 + internal_port_count(options)))
    return plan_cluster(options, ClusterDirectory(Path("/data")), ports, Path("/bin/etcd"))


def properties(made: ClusterPlan, name: str) -> dict[str, str]:
    text = made.files[Path(f"/data/config/{name}.properties")]
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def test_etcd_starts_before_the_services_which_wait_for_each_other_by_themselves():
    made = plan(ClusterOptions(brokers=2, controllers=2, coordinators=2, base_port=9092))
    names = [[spec.name for spec in stage] for stage in made.stages]
    assert names == [
        ["etcd-1"],
        ["controller-1", "controller-2", "group-coordinator-1", "group-coordinator-2", "broker-1", "broker-2"],
    ]
    assert {spec.role for spec in made.processes if spec.is_needed_to_stop} == {"controller"}


def test_services_are_forked_and_everything_else_is_executed():
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=1, base_port=9092, connect_ports=(8083,)))
    assert {spec.name: spec.service_module for spec in made.processes} == {
        "etcd-1": None,
        "controller-1": "ottla_controller.app",
        "group-coordinator-1": "ottla_group_coordinator.app",
        "broker-1": "ottla_broker.app",
        "connect-1": None,
    }


def test_a_coordinator_is_told_its_id_its_listeners_and_etcd_and_nothing_of_brokers():
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=2, base_port=9092))
    spec = next(spec for spec in made.processes if spec.name == "group-coordinator-2")
    assert spec.command[1:] == (
        *("-m", "ottla_group_coordinator"),
        *("--config", "/data/config/group-coordinator-2.properties"),
    )
    assert f"{spec.host}:{spec.port}" == spec.rpc
    assert properties(made, spec.name) == {
        "node.id": "2",
        "rpc.listener": spec.rpc,
        "metrics.listener": (spec.metrics or "").removeprefix("http://").removesuffix("/metrics"),
        "etcd.endpoints": f"http://127.0.0.1:{made.processes[0].port}",
        "member.lease.ttl.ms": "2000",
        "group.initial.rebalance.delay.ms": "0",
    }


def test_a_cluster_can_do_without_coordinators():
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=0, base_port=9092))
    assert [spec.role for spec in made.processes] == ["etcd", "controller", "broker"]


def test_brokers_listen_on_consecutive_ports_and_the_bootstrap_names_them():
    made = plan(ClusterOptions(brokers=2, controllers=1, coordinators=1, base_port=9092))
    assert made.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    assert properties(made, "broker-2")["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert properties(made, "broker-2")["log.dirs"] == "/data/broker-2"


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_topics_get_as_many_copies_as_there_are_brokers_up_to_three(brokers, replicas, in_sync):
    made = plan(ClusterOptions(brokers=brokers, controllers=1, coordinators=1, base_port=9092))
    broker = properties(made, f"broker-{brokers}")
    assert broker["default.replication.factor"] == str(replicas)
    assert broker["offsets.topic.replication.factor"] == str(replicas)
    assert broker["transaction.state.log.replication.factor"] == str(replicas)
    assert broker["transaction.state.log.min.isr"] == str(in_sync)
    assert broker["min.insync.replicas"] == str(in_sync)
    controller = properties(made, "controller-1")
    assert controller["default.replication.factor"] == str(replicas)
    assert controller["min.insync.replicas"] == str(in_sync)


def test_the_number_of_copies_can_be_set():
    settings = (parse_setting("broker:offsets.topic.replication.factor=2"),)
    made = plan(ClusterOptions(brokers=5, controllers=1, coordinators=1, base_port=9092, settings=settings))
    assert properties(made, "broker-1")["offsets.topic.replication.factor"] == "2"


@pytest.mark.parametrize(
    ("settings", "delay_ms"), [((), "0"), (("group-coordinator:group.initial.rebalance.delay.ms=3000",), "3000")]
)
def test_the_first_member_of_a_group_waits_for_nobody_unless_that_is_set(settings, delay_ms):
    given = tuple(parse_setting(each) for each in settings)
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=1, base_port=9092, settings=given))
    assert properties(made, "group-coordinator-1")["group.initial.rebalance.delay.ms"] == delay_ms


def test_what_is_set_for_brokers_holds_for_controllers_where_they_have_to_agree():
    settings = (
        parse_setting("broker:min.insync.replicas=1"),
        parse_setting("broker-2:default.replication.factor=1"),
        parse_setting("broker:log.retention.hours=1"),
        parse_setting("broker:member.lease.ttl.ms=9000"),
    )
    made = plan(ClusterOptions(brokers=3, controllers=1, coordinators=1, base_port=9092, settings=settings))
    controller = properties(made, "controller-1")
    assert (controller["min.insync.replicas"], controller["default.replication.factor"]) == ("1", "3")
    assert "log.retention.hours" not in controller
    assert controller["member.lease.ttl.ms"] == "2000"


def test_racks_are_dealt_to_the_brokers_in_turn():
    made = plan(ClusterOptions(brokers=5, controllers=1, coordinators=1, base_port=9092, racks=("a", "b", "c")))
    racks = [properties(made, f"broker-{number}")["broker.rack"] for number in range(1, 6)]
    assert racks == ["a", "b", "c", "a", "b"]
    assert "broker.rack" not in properties(made, "controller-1")


def test_brokers_of_a_cluster_without_racks_have_none():
    made = plan(ClusterOptions(brokers=2, controllers=1, coordinators=1, base_port=9092))
    assert "broker.rack" not in properties(made, "broker-1")


def etcd_cluster() -> ClusterPlan:
    return plan(
        ClusterOptions(
            brokers=1, controllers=1, coordinators=1, base_port=9092, etcd_nodes=3, etcd_peer_ports=(7001, 7002, 7003)
        )
    )


def flags_of(spec: ProcessSpec) -> dict[str, str]:
    return dict(flag.removeprefix("--").split("=", 1) for flag in spec.command[1:])


def test_the_members_of_an_etcd_cluster_start_together_and_know_each_other():
    made = etcd_cluster()
    members = made.stages[0]
    assert [member.name for member in members] == ["etcd-1", "etcd-2", "etcd-3"]
    expected = "ottla-1=http://127.0.0.1:7001,ottla-2=http://127.0.0.1:7002,ottla-3=http://127.0.0.1:7003"
    assert {flags_of(member)["initial-cluster"] for member in members} == {expected}
    assert [flags_of(member)["listen-peer-urls"] for member in members] == [
        "http://127.0.0.1:7001", "http://127.0.0.1:7002", "http://127.0.0.1:7003",
    ]  # fmt: skip
    assert [flags_of(member)["data-dir"] for member in members] == ["/data/etcd-1", "/data/etcd-2", "/data/etcd-3"]
    assert len({flags_of(member)["listen-client-urls"] for member in members}) == 3


def test_services_know_all_members_of_etcd_and_their_leases_outlast_an_election_among_them():
    made = etcd_cluster()
    endpoints = ",".join(f"http://127.0.0.1:{member.port}" for member in made.stages[0])
    election_ms = int(flags_of(made.stages[0][0])["election-timeout"])
    for name in ("controller-1", "group-coordinator-1", "broker-1"):
        assert properties(made, name)["etcd.endpoints"] == endpoints
        ttl_ms = int(properties(made, name)["member.lease.ttl.ms"])
        assert ttl_ms * 2 / 3 > 2 * election_ms + ATTEMPT_TIMEOUT_S * 1000


def test_a_single_etcd_keeps_the_data_directory_and_the_name_it_always_had():
    made = plan(ClusterOptions(brokers=1, controllers=1, coordinators=1, base_port=9092))
    flags = flags_of(made.stages[0][0])
    assert flags["data-dir"] == "/data/etcd"
    assert flags["initial-cluster"] == "ottla=http://127.0.0.1:0"


def with_connect(brokers: int = 1, *settings: str) -> ClusterPlan:
    return plan(
        ClusterOptions(
            brokers=brokers, controllers=1, coordinators=1, base_port=9092, connect_ports=(8083, 8084),
            settings=tuple(parse_setting(text) for text in settings),
        )
    )  # fmt: skip


def test_connect_workers_start_when_the_brokers_are_ready_and_are_asked_for_their_health():
    made = with_connect()
    assert [spec.name for spec in made.stages[-1]] == ["connect-1", "connect-2"]
    assert made.connect == ("http://127.0.0.1:8083", "http://127.0.0.1:8084")
    spec = made.stages[-1][1]
    assert spec.command[1:] == ("-m", "ottla_connect.app", "--config", "/data/config/connect-2.properties")
    assert spec.health == HttpHealth("http://127.0.0.1:8084/health")
    assert (spec.host, spec.port, spec.rpc) == ("127.0.0.1", 8084, None)


@pytest.mark.parametrize(("brokers", "replicas"), [(1, "1"), (2, "2"), (5, "3")])
def test_connect_workers_know_the_brokers_and_keep_as_many_copies_as_fit(brokers, replicas):
    made = with_connect(brokers, "connect:scheduled.rebalance.max.delay.ms=0", "connect-2:log.level=debug")
    written = properties(made, "connect-1")
    metrics = written.pop("metrics.listener")
    assert written == {
        "bootstrap.servers": made.bootstrap,
        "listeners": "http://127.0.0.1:8083",
        "config.providers": "env",
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.storage.replication.factor": replicas,
        "offset.storage.replication.factor": replicas,
        "status.storage.replication.factor": replicas,
        "scheduled.rebalance.max.delay.ms": "0",
    }
    assert made.stages[-1][0].metrics == f"http://{metrics}/metrics"
    assert properties(made, "connect-2")["log.level"] == "debug"


def test_what_is_written_for_a_connect_worker_is_a_workers_configuration():
    config = WorkerConfig.parse(properties(with_connect(3), "connect-2"))
    assert config.listeners == (Listener("http", "127.0.0.1", 8084),)
    assert config.storage_topic("offset").replication_factor == 3


def test_no_two_listeners_share_a_port():
    options = ClusterOptions(brokers=3, controllers=2, coordinators=2, base_port=9092, connect_ports=(8083, 8084))
    made = plan(options)
    addresses = [address for spec in made.processes for address in {f"{spec.host}:{spec.port}", spec.rpc} if address]
    # etcd shows its metrics where its clients connect
    metrics = [spec.metrics for spec in made.processes if spec.metrics and spec.role != "etcd"]
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


def test_mirror_workers_know_the_cluster_and_what_is_written_for_them_is_a_configuration():
    settings = ("mirror:clusters=A,local", "mirror:A.bootstrap.servers=a:1", r"mirror:topics=x\.y")
    made = plan(
        ClusterOptions(
            brokers=2, controllers=1, coordinators=1, base_port=9092, mirror_ports=(8084, 8085),
            settings=tuple(map(parse_setting, (*settings, "mirror-2:A->local.enabled=true"))),
        )
    )  # fmt: skip
    assert [spec.name for spec in made.stages[-1]] == ["mirror-1", "mirror-2"]
    assert made.mirror == ("http://127.0.0.1:8084", "http://127.0.0.1:8085")
    (spec,) = (each for each in made.stages[-1] if each.name == "mirror-2")
    assert spec.command[1:] == ("-m", "ottla_mirror", "--config", "/data/config/mirror-2.properties")
    (text,) = (text for path, text in made.files.items() if path.name == "mirror-2.properties")
    config = MirrorConfig.parse(parse_properties(text))
    flow = config.flows["A->local"]
    assert [str(each) for each in flow.target_clients.admin.bootstrap] == ["127.0.0.1:9092", "127.0.0.1:9093"]
    assert flow.plugins.topics.should_replicate_topic("x.y")
    assert not flow.plugins.topics.should_replicate_topic("xzy")


def test_in_a_secured_cluster_nothing_listens_without_certificates_but_pages():
    options = ClusterOptions(
        brokers=2, controllers=1, coordinators=1, base_port=9092, etcd_nodes=3, etcd_peer_ports=(1, 2, 3),
        connect_ports=(8083,), mirror_ports=(8084,), secure=True,
    )  # fmt: skip
    made = plan(options)
    assert all(endpoint.startswith("https://") for endpoint in made.etcd_endpoints)
    for spec in made.processes:
        if spec.role == "etcd":
            command = " ".join(spec.command)
            assert "--client-cert-auth=true" in command
            assert "--peer-client-cert-auth=true" in command
            assert command.count("http://") == 1  # of --listen-metrics-urls
            assert spec.metrics == spec.health.url.replace("/health", "/metrics")  # type: ignore[attr-defined]
            continue
        told = properties(made, spec.name)
        if spec.role in ("connect", "mirror"):
            prefix = "local." if spec.role == "mirror" else ""
            assert told[f"{prefix}security.protocol"] == "SSL"
            assert told["listeners"] == f"https://127.0.0.1:{spec.port}"
            assert (told["rest.authentication.methods"], told["rest.administrators"]) == ("certificate", "User:admin")
            assert spec.health.url == f"{told['listeners']}/health"  # type: ignore[attr-defined]
            assert spec.health.authorities is not None  # type: ignore[attr-defined]
            continue
        assert told["rpc.tls.key"] == told["etcd.tls.key"] == f"/data/tls/{spec.name}/key.pem"
        assert spec.health.tls is not None  # type: ignore[attr-defined]
        if spec.role == "broker":
            assert told["listeners"].startswith("SSL://")
            assert told["ssl.client.auth"] == "required"
            assert told["inter.broker.listener.name"] == "SSL"
            assert told["super.users"] == "User:admin;User:broker-1;User:broker-2;User:connect-1;User:mirror-1"


def test_a_secured_worker_takes_the_settings_of_its_clients():
    made = plan(
        ClusterOptions(
            brokers=1, controllers=1, coordinators=1, base_port=9092, connect_ports=(8083,), mirror_ports=(8084,),
            secure=True,
        )
    )  # fmt: skip
    WorkerConfig.parse(properties(made, "connect-1"))
