"""Profiles: what wins over what, and where secrets are."""

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.profiles.profile import BadProfile, Profile, check, resolved
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.free_ports import free_port

WITH_PASSWORD = "https://me:secret@schemas"

RUN_DEADLINE_S = 60
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the command with profiles of this test's own; what is left out of the environment is not set."""

    def run_ottla(*arguments: str, fails_with: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
        environment = {**kept, "XDG_CONFIG_HOME": str(tmp_path), **variables}
        done = subprocess.run(
            [ottla_command(), *arguments],
            capture_output=True, text=True, check=False, env=environment, timeout=RUN_DEADLINE_S,
        )  # fmt: skip
        assert done.returncode == fails_with, done.stderr
        return done

    return run_ottla


@pytest.fixture
def nobody() -> str:
    """An address at which nothing listens."""
    return f"127.0.0.1:{free_port()}"


def test_profiles_are_made_used_shown_listed_and_deleted(run, tmp_path):
    made = json.loads(
        run("profile", "create", "a", "-b", "a:1", "-X", "security.protocol=ssl", "--use", "--json").stdout
    )
    assert (made["name"], made["current"], made["client"]) == ("a", True, {"security.protocol": "ssl"})
    run("profile", "create", "b", "--bootstrap", "b:1", "--connect-url", "http://b:8083")
    assert [each["name"] for each in json.loads(run("profile", "list", "--json").stdout)] == ["a", "b"]
    assert "already" in run("profile", "create", "b", fails_with=1).stderr
    run("profile", "create", "b", "--bootstrap", "b:2", "--replace")
    assert json.loads(run("profile", "show", "b", "--json").stdout)["bootstrap"] == "b:2"
    assert "security.protocol" in run("profile", "show").stdout
    run("profile", "use", "b")
    run("profile", "delete", "b")
    assert "no profile is in use" in run("profile", "show", fails_with=1).stderr
    assert "there are: a" in run("profile", "use", "b", fails_with=1).stderr
    file = tmp_path / "ottla" / "profiles.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_option_wins_over_the_environment_which_wins_over_the_profile(run, nobody):
    run("profile", "create", "p", "--bootstrap", "in-profile.invalid:1", "--use")
    run("profile", "create", "q", "--bootstrap", "in-other.invalid:1")

    def asked(*arguments: str, **variables: str) -> str:
        return run(*arguments, fails_with=1, **variables).stderr

    assert "cannot reach in-profile.invalid:1" in asked("topic", "list")
    assert "cannot reach in-other.invalid:1" in asked("topic", "list", OTTLA_PROFILE="q")
    assert "cannot reach in-other.invalid:1" in asked("--profile", "q", "topic", "list", OTTLA_PROFILE="p")
    assert "cannot reach in-other.invalid:1" in asked("topic", "list", "--profile", "q")
    assert "cannot reach in-other.invalid:1" in asked("--profile", "q", "topic", "list", OTTLA_BOOTSTRAP=nobody)
    assert f"cannot reach {nobody}" in asked("topic", "list", OTTLA_BOOTSTRAP=nobody)
    assert f"cannot reach {nobody}" in asked("topic", "list", "--bootstrap", nobody, OTTLA_BOOTSTRAP="e.invalid:1")
    assert "there is no profile r; there are: p, q" in asked("--profile", "r", "topic", "list")


def test_a_profile_says_where_connect_workers_are(run, nobody):
    run("profile", "create", "p", "--connect-url", f"http://{nobody}", "--use")
    assert f"http://{nobody}" in run("connect", "list", fails_with=1).stderr


def test_a_secret_stands_in_no_profile_and_is_looked_up_when_it_is_used(run, tmp_path, nobody):
    refused = run("profile", "create", "p", "-b", nobody, "-X", "sasl.password=1234", fails_with=2).stderr
    assert "${env:NAME}" in refused
    assert "1234" not in refused
    run("profile", "create", "p", "-b", nobody, "-X", "sasl.password=${env:SECRET}", "--use")
    assert "1234" not in (tmp_path / "ottla" / "profiles.json").read_text()


def test_a_registry_without_a_scheme_is_kept_with_one_and_without_a_password(run, tmp_path):
    refused = run("profile", "create", "lab", "--schema-registry", "me:1234@schemas:8081", fails_with=2).stderr
    assert "a URL with a password in it is a secret" in refused
    assert "address 1 of 1 is empty" in run("profile", "create", "lab", "--schema-registry", "", fails_with=2).stderr
    assert not (tmp_path / "ottla").exists()
    made = run("profile", "create", "lab", "--schema-registry", "schemas:8081, https://other", "--json").stdout
    assert json.loads(made)["schema_registry"] == "http://schemas:8081, https://other"


def test_a_profile_that_is_damaged_is_one_sentence_and_can_be_replaced_by_hand(run, tmp_path):
    file = tmp_path / "ottla" / "profiles.json"
    file.parent.mkdir()
    file.write_text("{")
    assert run("topic", "list", fails_with=1).stderr.startswith(f"ottla: cannot read the profiles in {file}")
    file.write_text('{"profiles": {"p": {"bootstrp": "x"}}}')
    assert "profile p: it has the unknown field bootstrp" in run("profile", "list", fails_with=1).stderr


def test_commands_of_this_machine_need_no_profile_that_is_right(run, tmp_path):
    (tmp_path / "ottla").mkdir()
    (tmp_path / "ottla" / "profiles.json").write_text("{")
    assert "there is no cluster" in run("status", "--dir", str(tmp_path / "none"), fails_with=1).stderr


def test_settings_without_an_address_and_passwords_in_urls_are_refused():
    for wrong in (
        Profile(client={"security.protocol": "ssl"}),
        Profile(registry={"ssl.ca.location": "/ca"}),
        Profile(schema_registry=WITH_PASSWORD),
        Profile(schema_registry=f"https://schemas,{WITH_PASSWORD}"),
        Profile(bootstrap="a:1", client={"sasl.password": "x${env:A}"}),
    ):
        with pytest.raises(BadProfile):
            check(wrong)
    check(Profile(bootstrap="a:1", client={"sasl.password": "${file:/run/password}"}))


def test_references_are_replaced_wherever_they_stand():
    assert resolved({"a": "${env:X}:${file:/y}", "b": "$x"}, lambda kind, name: f"<{kind} {name}>") == {
        "a": "<env X>:<file /y>",
        "b": "$x",
    }
