"""A secret that is typed as it is is warned of, by name, on standard error; references and other settings are not."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.kafka.typed_secrets import UsedBy, warning_of_secrets
from tests.support.clusters.ottla_cluster import ottla_command
from tests.support.free_ports import free_port
from tests.unit.cli.test_help import commands, leaf

SETTINGS_OPTIONS = ("-X", "--source-X", "--registry-property")
VALUE = "hunter2"
RUN_DEADLINE_S = 60


@pytest.mark.parametrize(
    "key", ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.jaas.config", "sasl.oauthbearer.client.secret"]
)
def test_a_secret_is_named_with_the_ways_that_are_safe_and_not_shown(key: str) -> None:
    assert is_secret_setting(key)
    said = warning_of_secrets("--property", ["security.protocol=sasl_ssl", f" {key} = {VALUE}"])
    assert said is not None
    assert said.startswith(f"--property {key}: a secret on a command line")
    for way in (f"'{key}=${{env:NAME}}'", f"'{key}=${{file:/path}}'", "`ottla profile create`"):
        assert way in said
    assert VALUE not in said
    assert "\n" not in said


def test_several_secrets_are_one_warning() -> None:
    said = warning_of_secrets("-X", ["sasl.password=a", "ssl.key.password=b", "sasl.password=c"])
    assert said is not None
    assert said.startswith("-X sasl.password, ssl.key.password: ")


@pytest.mark.parametrize(
    "assignment",
    [
        "sasl.password=${env:KAFKA_PASSWORD}",
        "sasl.password=${file:/run/secrets/kafka}",
        'sasl.jaas.config=org.x.PlainLoginModule required username="me" password="${env:KAFKA_PASSWORD}";',
        "sasl.password=",
        "sasl.password",
        "sasl.username=me",
        "ssl.key.location=/run/key.pem",
    ],
)
def test_references_and_what_is_no_secret_are_not_warned_of(assignment: str) -> None:
    assert warning_of_secrets("--property", [assignment]) is None


def test_what_services_keep_may_refer_to_any_of_their_providers() -> None:
    reference = ["sasl.password=${vault:kafka:mirror}"]
    assert warning_of_secrets("--source-property", reference, used_by=UsedBy.CONFIG_PROVIDERS) is None
    assert warning_of_secrets("--property", reference) is not None
    said = warning_of_secrets("--source-property", [f"sasl.password={VALUE}"], used_by=UsedBy.CONFIG_PROVIDERS)
    assert said is not None
    assert "'sasl.password=${provider:path:key}'" in said


@pytest.mark.parametrize("role", ["", "broker:", "group-coordinator:", "broker-12:"])
@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("ssl.keystore.key", "OTTLA_SSL_KEYSTORE_KEY_FILE"),
        ("delegation.token.secret.key", "OTTLA_DELEGATION_TOKEN_SECRET_KEY_FILE"),
        ("listener.name.clients.plain.sasl.jaas.config", "OTTLA_LISTENER_NAME_CLIENTS_PLAIN_SASL_JAAS_CONFIG_FILE"),
    ],
)
def test_processes_take_secrets_from_files_that_their_environment_names(role: str, key: str, variable: str) -> None:
    said = warning_of_secrets("--set", [f"{role}{key}={VALUE}"], used_by=UsedBy.PROCESS)
    assert said is not None
    assert said.startswith(f"--set {role}{key}: a secret on a command line")
    assert f"'{variable}=/path'" in said
    assert VALUE not in said


@pytest.mark.parametrize(
    "setting", ["broker:ssl.keystore.location=/run/both.pem", "connect:sasl.password=${env:WORD}"]
)
def test_places_and_references_of_processes_are_not_warned_of(setting: str) -> None:
    assert warning_of_secrets("--set", [setting], used_by=UsedBy.PROCESS) is None


@pytest.mark.parametrize(
    ("path", "parameter", "typed", "named"),
    [
        ("up", "settings", f"broker:ssl.keystore.password={VALUE}", "--set broker:ssl.keystore.password"),
        ("config set", "assignments", f"ssl.keystore.password={VALUE}", "config set ssl.keystore.password"),
    ],
)
def test_commands_that_set_what_processes_go_by_warn(
    path: str, parameter: str, typed: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = leaf(tuple(path.split()))
    (option,) = (each for each in command.params if each.name == parameter)
    with command.make_context(path, ["--help"], resilient_parsing=True) as context:
        option.process_value(context, (typed,))
        assert capsys.readouterr().err == "", "a completion must print nothing"
        context.resilient_parsing = False
        option.process_value(context, (typed,))
    said = capsys.readouterr().err
    assert said.startswith(f"ottla: warning: {named}: "), said
    assert said.count("\n") == 1
    assert VALUE not in said


def options_with_settings() -> Iterator[tuple[str, str]]:
    """Every command with an option that takes settings of clients: its words, and the option."""
    for path in commands():
        for parameter in leaf(path).params:
            if set(SETTINGS_OPTIONS) & set(parameter.opts):
                yield " ".join(path), parameter.opts[0]


def test_every_command_that_takes_settings_of_clients_warns(capsys: pytest.CaptureFixture[str]) -> None:
    found = list(options_with_settings())
    assert {"topic list", "produce", "sql", "mirror link create", "mirror verify", "profile create"} <= {
        path for path, _ in found
    }
    for path, name in found:
        command = leaf(tuple(path.split()))
        (option,) = (each for each in command.params if name in each.opts)
        with command.make_context(path, ["--help"], resilient_parsing=True) as context:
            option.process_value(context, (f"sasl.password={VALUE}",))
            assert capsys.readouterr().err == "", f"a completion of {path} must print nothing"
            context.resilient_parsing = False
            option.process_value(context, (f"sasl.password={VALUE}",))
        said = capsys.readouterr().err
        assert said.startswith(f"ottla: warning: {name} sasl.password: "), f"{path}: {said!r}"
        assert said.count("\n") == 1
        assert VALUE not in said


def test_the_command_warns_once_and_goes_on(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}

    def stderr_of(*settings: str) -> list[str]:
        done = subprocess.run(
            [ottla_command(), "topic", "list", "-b", nobody, "-X", "security.protocol=sasl_plaintext", *settings],
            capture_output=True, text=True, check=False, timeout=RUN_DEADLINE_S,
            env={**kept, "XDG_CONFIG_HOME": str(tmp_path), "PASSWORD": VALUE},
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stdout == ""
        assert VALUE not in done.stderr
        return done.stderr.splitlines()

    warned = stderr_of("-X", f"sasl.password={VALUE}")
    assert [line for line in warned if "warning" in line] == warned[:1]
    assert warned[0].startswith("ottla: warning: --property sasl.password: ")
    assert f"cannot reach {nobody}" in warned[1]
    assert stderr_of("-X", "sasl.password=${env:PASSWORD}") == warned[1:]
