"""What deploy/ says, as Compose, Prometheus and Grafana read it; nothing is started."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_connect.config import WorkerConfig
from ottla_core.principal_mapping import principal_name
from ottla_sdk.runtime.java_properties import parse_properties
from ottla_sdk.worker_access import SETTINGS
from tests.deploy.page import PAGE, commands_of, sections
from tests.support.requirements import lack

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROFILES = ("cli", "console", "grafana", "mirror", "setup", "spark")
FILES = {
    "single": ("compose.yaml",),
    "three": ("compose.yaml", "cluster.yaml"),
    "flights": ("compose.yaml", "flights.yaml"),
    "secure": ("compose.yaml", "secure.yaml"),
}
PUBLISHED = "grafana"
"""The one service whose image is made by others."""
ONCE = frozenset({"certificates", "etcd-users"})
"""Services that end when they have done their work."""
TYPED_ELSEWHERE = {
    "Containers": "test_single.py",
    "Three of everything": "test_cluster.py",
    "With certificates everywhere": "test_secure.py",
    "A second cluster that follows": "test_mirror.py",
    "From CSV files through Spark into PostgreSQL": "test_flights.py",
}


def model(name: str) -> dict[str, Any]:
    """What Compose makes of some files, with all profiles."""
    if shutil.which("docker") is None:
        lack("Compose is not installed: scripts/ensure-docker installs it")
    files = [word for file in FILES[name] for word in ("--file", str(DEPLOY / file))]
    profiles = [word for profile in PROFILES for word in ("--profile", profile)]
    done = subprocess.run(
        ["docker", "compose", *files, *profiles, "config", "--format", "json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.mark.parametrize("name", FILES)
def test_every_service_is_without_rights_and_starts_again(name: str) -> None:
    services = model(name)["services"]

    for each, service in services.items():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service.get("restart") == "unless-stopped" or each in ONCE or service["profiles"] == ["cli"]
    assert {
        each for each, service in services.items() if "no-new-privileges:true" not in service.get("security_opt", [])
    } <= {"flights"}


@pytest.mark.parametrize("name", FILES)
def test_every_image_but_one_is_built_here_and_that_one_is_pinned(name: str) -> None:
    services = model(name)["services"]

    assert {each for each, service in services.items() if "build" not in service} == {PUBLISHED}
    assert re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+", services[PUBLISHED]["image"])
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE))
    assert {service["build"]["target"] for service in services.values() if "build" in service} <= targets


@pytest.mark.parametrize("name", FILES)
def test_ports_are_published_on_loopback_alone_and_each_once(name: str) -> None:
    published = [port for service in model(name)["services"].values() for port in service.get("ports", [])]

    assert {port["host_ip"] for port in published} == {"127.0.0.1"}
    assert len({port["published"] for port in published}) == len(published)


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_mounted_exists(name: str) -> None:
    read = model(name)
    written_by_the_reader = {str(DEPLOY / "postgres-password")}
    in_containers = [*read["configs"].values(), *read.get("secrets", {}).values()]
    # Compose copies what has its content in place into the container, which a read-only one does not take.
    assert [each for each in in_containers if "file" not in each] == []
    files = {each["file"] for each in in_containers}
    binds = {
        volume["source"]
        for service in read["services"].values()
        for volume in service.get("volumes", [])
        if volume["type"] == "bind"
    }

    assert {each for each in files | binds if not Path(each).exists()} <= written_by_the_reader


def test_three_of_everything_are_three_of_everything() -> None:
    single, three = model("single")["services"], model("three")["services"]

    roles = {
        each.removesuffix("-1")
        for each in single
        if re.fullmatch(r"(etcd|controller|group-coordinator|broker|connect)-1", each)
    }
    assert len(roles) == 5
    assert {*three} - {*single} == {f"{role}-{number}" for role in roles for number in (2, 3)}
    assert len({three[f"broker-{number}"]["environment"]["OTTLA_BROKER_RACK"] for number in (1, 2, 3)}) == 3
    for role in roles:
        environments = [three[f"{role}-{number}"]["environment"] for number in (1, 2, 3)]
        of_each = {"OTTLA_NODE_ID", "OTTLA_BROKER_RACK", "ETCD_NAME"}
        same = [
            {
                key: value
                for key, value in environment.items()
                if key not in of_each and "ADVERTISE" not in key and key != "OTTLA_LISTENERS"
            }
            for environment in environments
        ]
        assert same[0] == same[1] == same[2]


@pytest.mark.parametrize(
    ("name", "targets"), [("single", "single.yaml"), ("three", "three.yaml"), ("secure", "secure.yaml")]
)
def test_every_process_of_the_cluster_is_told_to_prometheus(name: str, targets: str) -> None:
    services = {each for each, service in model(name)["services"].items() if "profiles" not in service}
    listed = yaml.safe_load((DEPLOY / "prometheus/targets" / targets).read_text())

    told = {address.partition(":")[0] for group in listed for address in group["targets"]}
    assert told == services - {"prometheus"}
    assert {group["labels"]["job"] for group in listed} == {
        *("etcd", "ottla-broker", "ottla-controller", "ottla-group-coordinator", "ottla-connect")
    }


def test_processes_of_profiles_are_found_by_prometheus() -> None:
    services = model("single")["services"]
    with_metrics = {
        each
        for each, service in services.items()
        if service.get("profiles") in (["spark"], ["mirror"]) and not each.startswith("spark-")
    }
    jobs = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]

    assert {
        name for job in jobs for found in job.get("dns_sd_configs", []) for name in found["names"]
    } == with_metrics


def test_grafana_is_given_the_dashboards_and_the_data_source_that_they_ask() -> None:
    grafana = model("single")["services"]["grafana"]
    mounted = {volume["target"]: Path(volume["source"]) for volume in grafana["volumes"] if volume["type"] == "bind"}
    provisioning = mounted["/etc/grafana/provisioning"]
    (provider,) = yaml.safe_load((provisioning / "dashboards/ottla.yaml").read_text())["providers"]
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())["datasources"]

    dashboards = [json.loads(file.read_text()) for file in mounted[provider["options"]["path"]].glob("*.json")]
    assert len(dashboards) == len({dashboard["uid"] for dashboard in dashboards}) > 0
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    home = Path(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (mounted[str(home.parent)] / home.name).exists()
    asked = {each["uid"] for dashboard in dashboards for each in _sources(dashboard)}
    assert asked <= {source["uid"], "$datasource", "${datasource}", "-- Grafana --", "grafana"}


def _sources(value: object) -> list[dict[str, str]]:
    """The data sources that a dashboard names, wherever it does."""
    if isinstance(value, dict):
        own = [value["datasource"]] if isinstance(value.get("datasource"), dict) else []
        return own + [each for inner in value.values() for each in _sources(inner)]
    return [each for inner in value for each in _sources(inner)] if isinstance(value, list) else []


def test_each_section_with_commands_is_typed_by_a_test() -> None:
    assert sections() == [*TYPED_ELSEWHERE]
    for section, file in TYPED_ELSEWHERE.items():
        assert section in (Path(__file__).parent / file).read_text()
        assert commands_of(section)
    assert "```\ndocker" not in PAGE.read_text()


def test_in_the_secure_cluster_nobody_speaks_without_certificates_but_pages() -> None:
    services = model("secure")["services"]

    for name in ("controller-1", "group-coordinator-1", "broker-1"):
        environment = services[name]["environment"]
        assert environment["OTTLA_ETCD_ENDPOINTS"] == "https://etcd-1:2379"
        assert {"OTTLA_RPC_TLS_CA", "OTTLA_RPC_TLS_CERTIFICATE", "OTTLA_RPC_TLS_KEY"} <= environment.keys()
    assert services["broker-1"]["environment"]["OTTLA_SSL_CLIENT_AUTH"] == "required"
    etcd = services["etcd-1"]["environment"]
    plain = {key for key, value in etcd.items() if "http://" in value}
    assert plain == {"ETCD_LISTEN_METRICS_URLS"}
    assert etcd["ETCD_CLIENT_CERT_AUTH"] == etcd["ETCD_PEER_CLIENT_CERT_AUTH"] == "true"


def test_the_secure_clusters_connect_asks_who_calls_and_its_health_is_asked_inside_the_container() -> None:
    services = model("secure")["services"]

    connect = services["connect-1"]
    # As Compose shows it, a dollar stands twice.
    config = WorkerConfig.load([], {key: value.replace("$$", "$") for key, value in connect["environment"].items()})
    assert [str(each) for each in config.listeners] == ["https://0.0.0.0:8083"]
    access = config.rest_access
    assert access is not None
    assert access.administrators == {"admin"}
    (rule, _) = access.certificate_rules or ()
    assert principal_name([rule], "CN=admin") == "admin"
    (admin_listener,) = config.admin_listeners or ()
    assert admin_listener.host == "127.0.0.1"
    assert connect["healthcheck"]["test"][-1] == f"{admin_listener}/health"
    cli = services["cli"]
    assert cli["environment"]["OTTLA_CONNECT_URL"] == "https://connect-1:8083"
    assert cli["environment"]["OTTLA_REST_CONFIG"] in {each["target"] for each in cli["configs"]}
    parsed = parse_properties((DEPLOY / "cli/secure-rest.properties").read_text())
    assert parsed.keys() <= SETTINGS.keys()


def test_each_process_of_the_secure_cluster_is_given_its_own_certificate_only() -> None:
    services = model("secure")["services"]

    folders = {
        name: volume.get("volume", {}).get("subpath")
        for name, service in services.items()
        for volume in service.get("volumes", [])
        if volume["source"] == "certificates"
    }
    whole = {name for name, folder in folders.items() if not folder}
    assert whole == ONCE
    own = {name: f"tls/{name}" for name in ("etcd-1", "controller-1", "group-coordinator-1", "broker-1", "connect-1")}
    assert {name: folder for name, folder in folders.items() if folder} == {**own, "cli": "tls/admin"}
