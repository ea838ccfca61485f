"""A broker with the authorizer and the builder of principals of examples/authorizer, which fail on purpose, too."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclBindingFilter, AdminClient, NewTopic
from confluent_kafka.admin import AclOperation as Operation
from confluent_kafka.admin import AclPermissionType as Permission
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Kind

from tests.support.clusters.ottla_cluster import LauncherFailed, OttlaCluster
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_ports

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples/authorizer/src"
TIMEOUT_S = 30
DOMAIN = "example.com"
FAULTY = """
from ottla_example_teams.team_authorizer import TeamAuthorizer
from ottla_sdk import hookimpl


class FaultyTeams(TeamAuthorizer):
    def authorize(self, request):
        if request.resource_name == "weather.faulty":
            raise LookupError("on purpose")
        if request.resource_name == "weather.strange":
            return "yes"
        return super().authorize(request)

    def close(self):
        raise OSError("closed on purpose")


class Unready(TeamAuthorizer):
    def start(self, context):
        raise LookupError("no teams today")


@hookimpl
def ottla_authorizers():
    return [FaultyTeams, Unready]
"""


def site(directory: Path) -> Path:
    """Return a folder with the example and the faulty class, as installed distributions."""
    made = directory / "site"
    shutil.copytree(EXAMPLE, made)
    (made / "faulty_teams.py").write_text(FAULTY)
    for name, module in (("ottla_example_teams", "ottla_example_teams.plugin"), ("faulty_teams", "faulty_teams")):
        information = made / f"{name}-0.1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
        (information / "entry_points.txt").write_text(f"[ottla.plugins]\n{name} = {module}\n")
    return made


class PluggedCluster:
    """A broker that asks the plugins."""

    def __init__(self, directory: Path, **changed: str) -> None:
        self.teams = directory / "teams.json"
        self.set_teams(weather=["ann"])
        self.audit_path = directory / "audit.log"
        (port,) = free_ports(1)
        self.address = f"{LOOPBACK}:{port}"
        users = " ".join(f'user_{name}="{name}"' for name in (f"ann@{DOMAIN}", f"bob@{DOMAIN}", "eve@elsewhere.com"))
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        settings = {
            "listeners": f"LOGINS://{self.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGINS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.logins.plain.sasl.jaas.config": f"{module} required {users};",
            "authorizer.class.name": "faulty_teams.FaultyTeams",
            "authorizer.teams.file": str(self.teams),
            "authorizer.teams.check.seconds": "0.05",
            "principal.builder.class": "ottla_example_teams.domain_users.DomainUsers",
            "principal.builder.domain": DOMAIN,
            "super.users": "User:ANONYMOUS",
            "audit.log.path": str(self.audit_path),
        }
        given = {**settings, **{key.replace("_", "."): value for key, value in changed.items()}}
        arguments = [each for name, value in given.items() for each in ("--set", f"broker:{name}={value}")]
        self.cluster = OttlaCluster(directory / "cluster", arguments=arguments)

    def set_teams(self, **teams: list[str]) -> None:
        self.teams.write_text(json.dumps(teams))

    def settings(self, user: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": user,
            "log_level": 0,
        }

    def write(self, user: str, topic: str) -> KafkaError | None:
        """Returns the error with which a record is refused, None if it is written."""
        errors: list[KafkaError | None] = []
        producer = Producer({**self.settings(user), "message.timeout.ms": TIMEOUT_S * 1000})
        producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(2 * TIMEOUT_S) == 0
        return errors[0]

    def denials(self, topic: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.audit_path.read_text().splitlines()]
        return [each for each in found if each["kind"] == "denial" and each["resources"] == [f"TOPIC:{topic}"]]


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluggedCluster]:
    directory = tmp_path_factory.mktemp("plugged")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(site(directory)), prepend=os.pathsep)
        made = PluggedCluster(directory)
        with made.cluster:
            admin = AdminClient({"bootstrap.servers": made.cluster.bootstrap})
            names = ("weather.readings", "weather.faulty", "weather.strange", "flights.late")
            for future in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
                future.result(TIMEOUT_S)
            yield made
        log = (made.cluster.directory / "logs" / "broker-1.log").read_text()
        assert '"event": "registered"' in log
        assert '"a plugin has failed as it was closed"' in log
        assert (made.cluster.directory / "broker-1" / ".kafka_cleanshutdown").exists()


def test_a_plugin_says_who_clients_are_and_what_they_may_do(plugged: PluggedCluster) -> None:
    assert plugged.write(f"ann@{DOMAIN}", "weather.readings") is None
    for user, topic in ((f"bob@{DOMAIN}", "weather.readings"), (f"ann@{DOMAIN}", "flights.late")):
        error = plugged.write(user, topic)
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    eventually(lambda: plugged.denials("flights.late"), "the denial is recorded")
    assert plugged.denials("flights.late")[0]["principal"] == "User:ann"


def test_whom_the_builder_refuses_is_not_logged_in(plugged: PluggedCluster) -> None:
    errors: list[KafkaError] = []
    client = AdminClient({**plugged.settings("eve@elsewhere.com"), "error_cb": errors.append})
    eventually(lambda: client.poll(0.1) is not None and errors, "the client is told")
    assert KafkaError._AUTHENTICATION in {each.code() for each in errors}
    log = plugged.cluster.broker.log
    eventually(lambda: f"eve@elsewhere.com is no user of {DOMAIN}" in log.read_text(), "the log says why")


@pytest.mark.parametrize("topic", ["weather.faulty", "weather.strange"])
def test_a_plugin_that_fails_refuses_and_the_audit_log_says_so(plugged: PluggedCluster, topic: str) -> None:
    error = plugged.write(f"ann@{DOMAIN}", topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    eventually(lambda: plugged.denials(topic), "the failure is recorded")
    assert plugged.denials(topic)[0]["errors"] == {"AUTHORIZER_FAILED": 1}
    assert "the authorizer has failed, which counts as a refusal" in plugged.cluster.broker.log.read_text()


def test_what_the_plugin_has_changed_its_mind_about_holds_on_open_connections(plugged: PluggedCluster) -> None:
    producer = Producer(plugged.settings(f"bob@{DOMAIN}"))

    def is_refused() -> bool:
        errors: list[KafkaError | None] = []
        try:
            producer.produce("weather.readings", b"v", on_delivery=lambda error, _: errors.append(error))
        except KafkaException as refused:  # by what the client remembers of the topic
            errors.append(refused.args[0])
        assert producer.flush(TIMEOUT_S) == 0
        return errors[0] is not None and errors[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    try:
        plugged.set_teams(weather=["ann", "bob"])
        eventually(lambda: plugged.write(f"bob@{DOMAIN}", "weather.readings") is None, "bob may write")
        assert not is_refused()
        plugged.set_teams(weather=["ann"])
        eventually(is_refused, "bob may write no more")
    finally:
        plugged.set_teams(weather=["ann"])


def test_a_plugin_that_goes_by_access_control_lists_lets_them_be_asked_for(plugged: PluggedCluster) -> None:
    admin = AdminClient({"bootstrap.servers": plugged.cluster.bootstrap})
    wanted = AclBindingFilter(Kind.ANY, None, Pattern.ANY, None, None, Operation.ANY, Permission.ANY)
    assert admin.describe_acls(wanted).result(TIMEOUT_S) == []
    with pytest.raises(KafkaException):
        AdminClient(plugged.settings(f"ann@{DOMAIN}")).describe_acls(wanted).result(TIMEOUT_S)


def test_a_broker_does_not_start_with_an_authorizer_that_cannot(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(site(tmp_path)), prepend=os.pathsep)
        made = PluggedCluster(tmp_path)
        made.teams.unlink()
        with pytest.raises(LauncherFailed, match=r"authorizer\.teams\.file"):
            made.cluster.start()


def test_a_broker_whose_authorizer_cannot_begin_has_not_joined_the_cluster(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(site(tmp_path)), prepend=os.pathsep)
        made = PluggedCluster(tmp_path, authorizer_class_name="faulty_teams.Unready")
        with pytest.raises(LauncherFailed, match="no teams today"):
            made.cluster.start()
    assert '"event": "registered"' not in (made.cluster.directory / "logs" / "broker-1.log").read_text()
