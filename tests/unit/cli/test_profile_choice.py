"""Client settings of a profile are for its own addresses only."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.local.cluster_directory import ClusterDirectory
from ottla.profiles import profile_choice
from ottla.profiles.profile import Profile
from ottla.profiles.profile_store import Profiles, write_profiles
from ottla_operations.errors import OperationError
from ottla_operations.local_clusters.cluster_report import ClusterReport
from ottla_operations.local_clusters.process_identity import identify

SCHEMAS = "http://schemas"
REST = (profile_choice.REST_VARIABLE, profile_choice.REST_URLS_VARIABLE)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in (*profile_choice.VARIABLES.values(), *REST):
        monkeypatch.setenv(variable, "set")  # so that what the profile puts there is taken back
    monkeypatch.setattr(profile_choice, "_chosen", None)
    password = tmp_path / "password"
    password.write_text("from-file\n")
    client = {"sasl.username": "${env:OTTLA_TEST_USER}", "sasl.password": f"${{file:{password}}}"}
    registry = {"basic.auth.user.info": "${env:OTTLA_TEST_USER}"}
    made = Profile(bootstrap="a:1,b:2", schema_registry=SCHEMAS, client=client, registry=registry)
    write_profiles(Profiles("p", {"p": made}))


@pytest.mark.usefixtures("profile")
def test_settings_go_to_the_profiles_own_cluster_and_registry_and_to_no_other(monkeypatch):
    monkeypatch.setenv("OTTLA_TEST_USER", "me")
    profile_choice.choose_profile(None)
    assert profile_choice.client_settings("a:1,b:2") == {"sasl.username": "me", "sasl.password": "from-file"}
    assert profile_choice.registry_settings("http://schemas") == {"basic.auth.user.info": "me"}
    assert profile_choice.client_settings("127.0.0.1:9092") == {}
    assert profile_choice.registry_settings("http://other") == {}


@pytest.mark.usefixtures("profile")
def test_a_reference_that_leads_nowhere_ends_the_command(monkeypatch):
    monkeypatch.delenv("OTTLA_TEST_USER", raising=False)
    profile_choice.choose_profile("p")
    with pytest.raises(OperationError, match=r"profile p: \$\{env:OTTLA_TEST_USER\} .* not set"):
        profile_choice.client_settings("a:1,b:2")


@pytest.fixture
def local_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """Makes the state file of a local cluster whose supervisor is the process given."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("OTTLA_DIR", str(tmp_path / "local"))
    for variable in (*profile_choice.VARIABLES.values(), *REST):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(profile_choice, "_chosen", None)

    def make(pid: int, start: str) -> None:
        directory = ClusterDirectory(tmp_path / "local")
        directory.create()
        directory.write_report(
            ClusterReport(
                bootstrap="127.0.0.1:7000", directory=str(directory.path), state="running", etcd=(),
                embedded_etcd=True, brokers=1, controllers=1, supervisor_pid=pid, supervisor_start=start,
                base_port=7000, log="", connect=("http://127.0.0.1:7083",), mirror=("http://127.0.0.1:7084",),
                rest_config="/data/rest.properties",
            )
        )  # fmt: skip

    return make


def test_without_a_profile_the_local_cluster_that_runs_is_meant(local_cluster):
    own = identify(os.getpid())
    assert own is not None
    local_cluster(own.pid, own.start)
    profile_choice.choose_profile(None)
    assert os.environ["OTTLA_BOOTSTRAP"] == "127.0.0.1:7000"
    assert os.environ["OTTLA_CONNECT_URL"] == "http://127.0.0.1:7083"


def test_a_local_cluster_that_does_not_run_and_one_beside_another_address_are_not(local_cluster, monkeypatch):
    local_cluster(os.getpid(), "another")
    profile_choice.choose_profile(None)
    assert os.environ["OTTLA_BOOTSTRAP"] == ""
    own = identify(os.getpid())
    assert own is not None
    local_cluster(own.pid, own.start)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "elsewhere:1")
    profile_choice.choose_profile(None)
    assert os.environ["OTTLA_CONNECT_URL"] == ""


@pytest.mark.usefixtures("profile")
def test_a_profile_that_is_typed_wins_over_the_environment_and_one_in_use_does_not(monkeypatch):
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "prod:1")
    profile_choice.choose_profile(None)
    assert os.environ["OTTLA_BOOTSTRAP"] == "prod:1"
    profile_choice.choose_profile("p", is_typed=True)
    assert os.environ["OTTLA_BOOTSTRAP"] == "a:1,b:2"


def test_a_profile_without_brokers_is_for_the_local_cluster_on_whatever_ports(local_cluster):
    own = identify(os.getpid())
    assert own is not None
    local_cluster(own.pid, own.start)
    write_profiles(Profiles("lab", {"lab": Profile(schema_registry=SCHEMAS)}))
    profile_choice.choose_profile(None)
    assert os.environ["OTTLA_SCHEMA_REGISTRY"] == "http://schemas"
    assert os.environ["OTTLA_BOOTSTRAP"] == "127.0.0.1:7000"


def test_the_local_clusters_workers_are_shown_its_own_file_wherever_the_brokers_are_said_to_be(
    local_cluster, monkeypatch
):
    own = identify(os.getpid())
    assert own is not None
    local_cluster(own.pid, own.start)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "elsewhere:9092")
    profile_choice.choose_profile(None)
    assert os.environ["OTTLA_CONNECT_URL"] == "", "it is another cluster that is meant"
    assert os.environ["OTTLA_REST_CONFIG"] == "/data/rest.properties"
    assert os.environ["OTTLA_REST_CONFIG_URLS"] == "http://127.0.0.1:7083,http://127.0.0.1:7084"


def test_a_profiles_file_for_workers_is_for_its_own_ones(local_cluster, tmp_path):
    made = Profile(bootstrap="a:1", connect_url="https://c:1", mirror_url="https://m:1", rest_config="/rest")
    write_profiles(Profiles(None, {"p": made}))
    profile_choice.choose_profile("p", is_typed=True)
    assert [os.environ[each] for each in REST] == ["/rest", "https://c:1,https://m:1"]
    assert os.environ["OTTLA_MIRROR_URL"] == "https://m:1"
