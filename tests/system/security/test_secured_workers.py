"""The REST APIs of the workers of a secured cluster: who is let in by which way, and who is told what.

One cluster serves all tests: two Connect workers and two mirror workers, started by `ottla up --secure`. Its Connect
workers take passwords and tokens beside certificates.
"""

import base64
import json
import os
import shlex
import signal
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from ottla.secure.authority import Subject, new_authority
from tests.support.clusters.ottla_cluster import OttlaCluster, ottla_command
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.secured_cluster import YEAR, SecuredCluster
from tests.support.eventually import eventually
from tests.support.free_ports import free_port_block
from tests.support.servers.issuer import Issuer

pytestmark = pytest.mark.slow

PASSWORD = "a-marker-that-only-its-file-has"
REQUEST_TIMEOUT_S = 60.0


@dataclass
class Place:
    """The clusters.

    Attributes:
        secured: the cluster and its certificates.
        source: another cluster, without any of that.
        report: what `ottla up` tells of it.
        users: the file of users with passwords.
        issuer: of bearer tokens.
        folder: for files of tests.
    """

    secured: SecuredCluster
    source: OttlaCluster
    report: dict[str, Any]
    users: Path
    issuer: Issuer
    folder: Path
    _files: int = field(default=0)

    def context(self, common_name: str | None = None) -> ssl.SSLContext:
        """TLS that trusts the cluster, with a certificate of its authority for a name, or with none."""
        context = ssl.create_default_context(cafile=self.secured.tls / "admin" / "ca.pem")
        if common_name is not None:
            files = self.secured.written(Subject(common_name))
            context.load_cert_chain(files.certificate, files.key)
        return context

    def client(self, url: str, common_name: str | None = None, **headers: str) -> httpx.Client:
        """A client of a worker, with a certificate or without one."""
        return httpx.Client(
            base_url=url,
            verify=self.context(common_name),
            trust_env=False,
            timeout=REQUEST_TIMEOUT_S,
            headers=headers,
        )

    def ottla(self, file: dict[str, str] | None = None, **environment: str) -> Ottla:
        """The command on this cluster, with the settings for workers that `ottla up` has written, or others."""
        made = Ottla(self.report["bootstrap"])
        del made.environment["OTTLA_BOOTSTRAP"]
        made.environment |= {
            "OTTLA_DIR": self.report["directory"],
            "XDG_CONFIG_HOME": str(self.folder),
            **environment,
        }
        if file is not None:
            self._files += 1
            path = self.folder / f"{self._files}-rest.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in file.items()))
            made.environment["OTTLA_REST_CONFIG"] = str(path)
        return made

    @property
    def ca(self) -> str:
        """The authorities of the cluster."""
        return str(self.secured.tls / "admin" / "ca.pem")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("workers")
    for name in ("made", "files"):
        (folder / name).mkdir()
    issuer, users = Issuer(), folder / "users"
    (folder / "keys.json").write_bytes(issuer.key_set())
    command = Ottla("")
    for user in ("ann", "bob"):
        command.run("secure", "rest-user", str(users), user, "--password-file", "-", stdin=PASSWORD.encode())
    settings = {
        "rest.authentication.methods": "certificate,basic,bearer",
        "rest.administrators": "User:admin;User:ann",
        "rest.basic.users.location": str(users),
        "rest.bearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
    }
    written = [word for key, value in settings.items() for word in ("--set", f"connect:{key}={value}")]
    arguments = [
        *("--secure", "--connect", "2", "--connect-port", str(free_port_block(2))),
        *("--mirror", "2", "--mirror-port", str(free_port_block(2))),
        *written,
    ]
    with (
        OttlaCluster(folder / "source") as source,
        OttlaCluster(folder / "cluster", arguments=arguments) as cluster,
    ):
        report = json.loads((folder / "cluster" / "cluster.json").read_text())
        yield Place(SecuredCluster(cluster, folder / "made"), source, report, users, issuer, folder / "files")


def connector(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "config": {"connector.class": "DatagenSource", "topic": name, "datagen.quickstart": "users"},
    }


def authorization(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def test_all_commands_work_at_once_for_who_has_started_the_cluster(place: Place) -> None:
    ottla = place.ottla()
    assert all(url.startswith("https://") for url in [*place.report["connect"], *place.report["mirror"]])
    definition = place.folder / "at-once.json"
    definition.write_text(json.dumps(connector("at-once")))
    ottla.run("connect", "create", str(definition))
    listed = eventually(
        lambda: [each for each in ottla.json("connect", "list") if each["state"] == "RUNNING"], "it runs"
    )
    assert listed[0]["connector"] == "at-once"
    assert ottla.json("mirror", "list") == []
    doctor = json.loads(ottla_that_may_fail(ottla, "doctor", "--json"))
    assert doctor["not_seen"] == []
    ottla.run("connect", "delete", "at-once")


def ottla_that_may_fail(ottla: Ottla, *arguments: str) -> bytes:
    """What a command prints whose exit code is about findings."""
    done = subprocess.run(
        [ottla_command(), *arguments], capture_output=True, check=False, env={**os.environ, **ottla.environment}
    )
    return done.stdout


@pytest.mark.parametrize("role", ["connect", "mirror"])
def test_who_shows_nothing_learns_only_whether_a_worker_works(place: Place, role: str) -> None:
    for url in place.report[role]:
        with place.client(url) as client:
            assert client.get("/health").status_code == 200
            for path in ("/", "/connectors", "/flows", "/openapi.json", "/internal/flows/x"):
                assert client.get(path).status_code in (401, 403), path


def test_a_change_that_any_worker_is_asked_for_is_carried_out_by_the_leader_for_who_may(place: Place) -> None:
    ways = {
        "certificate": ("admin", {}),
        "password": (None, authorization("ann", PASSWORD)),
        "token": (None, {"Authorization": f"Bearer {place.issuer.token('ann')}"}),
    }
    for way, (common_name, headers) in ways.items():
        for number, url in enumerate(place.report["connect"]):
            name = f"{way}-{number}"
            with place.client(url, common_name, **headers) as client:
                made = client.post("/connectors", json=connector(name))
                assert made.status_code == 201, made.text

                def runs(client: httpx.Client = client, name: str = name) -> bool:
                    tasks = client.get(f"/connectors/{name}/status").json().get("tasks", [])
                    return [each["state"] for each in tasks] == ["RUNNING"]

                eventually(runs, f"{name} has a task, for which one worker asked the other")
                assert client.delete(f"/connectors/{name}").status_code == 204


@pytest.mark.parametrize("way", ["certificate", "password", "token"])
def test_who_is_known_and_no_administrator_only_reads_from_any_worker(place: Place, way: str) -> None:
    headers = {
        "certificate": {},
        "password": authorization("bob", PASSWORD),
        "token": {"Authorization": f"Bearer {place.issuer.token('bob')}"},
    }[way]
    for url in place.report["connect"]:
        with place.client(url, "guest" if way == "certificate" else None, **headers) as client:
            assert client.get("/connectors").status_code == 200
            refused = client.post("/connectors", json=connector("never"))
            assert refused.status_code == 403
            assert "may only read" in refused.json()["message"]
            assert "never" not in client.get("/connectors").json()


def test_wrong_passwords_tokens_and_certificates_are_refused_counted_and_not_logged(place: Place) -> None:
    url = place.report["connect"][0]
    wrong = [
        authorization("ann", "guessed-and-never-told"),
        authorization("eve", PASSWORD),
        {"Authorization": f"Bearer {Issuer().token('ann')}"},
        {"Authorization": f"Bearer {place.issuer.token('ann', life_s=-600)}"},
    ]
    for headers in wrong:
        with place.client(url, **headers) as client:
            assert client.get("/connectors").status_code == 401
    (worker,) = [each for each in place.report["processes"] if each["name"] == "connect-1"]
    page = httpx.get(worker["metrics"], trust_env=False).text
    (line,) = [
        line for line in page.splitlines() if line.startswith("ottla_connect_rest_failed_authentications_total")
    ]
    assert float(line.split()[-1]) >= len(wrong)
    logged = Path(worker["log"]).read_text()
    assert "an authentication failed" in logged
    assert "guessed-and-never-told" not in logged
    assert PASSWORD not in logged


def test_a_certificate_of_another_authority_is_refused(place: Place) -> None:
    foreign = place.secured.written(Subject("admin"), new_authority("another", datetime.now(UTC), YEAR))
    context = place.context()
    context.load_cert_chain(foreign.certificate, foreign.key)
    for url in (place.report["connect"][0], place.report["mirror"][0]):
        with httpx.Client(base_url=url, verify=context, trust_env=False) as client, pytest.raises(httpx.HTTPError):
            client.get("/")


def test_what_workers_ask_each_other_nobody_else_may(place: Place) -> None:
    for url in place.report["connect"]:
        with place.client(url, "admin") as client:
            assert client.post("/connectors/x/tasks", json=[]).status_code == 403
    for url in place.report["mirror"]:
        with place.client(url, "admin") as client:
            assert client.get("/internal/flows/x").status_code == 403


def test_mirror_workers_gather_what_all_know_and_send_on_what_the_leader_answers(place: Place) -> None:
    ottla, flow, path = place.ottla(), "source->local", "/flows/source-%3Elocal"
    ottla.run("mirror", "create", flow, "--source", place.source.bootstrap, "--topics", "none-of-these")
    for url in place.report["mirror"]:
        with place.client(url, "admin") as client:

            def is_whole(client: httpx.Client = client) -> bool:
                answer = client.get(f"{path}/status")
                return answer.status_code == 200 and "does not answer" not in answer.text

            eventually(is_whole, f"{url} hears the other worker")

            def is_unknown(client: httpx.Client = client) -> bool:
                return client.post(f"{path}/groups/nobody/sync").status_code == 404

            eventually(is_unknown, "the leader, which alone knows, says that there is no such group")
        with place.client(url, "guest") as client:
            assert client.get(f"{path}/status").status_code == 200
            assert client.put(f"{path}/pause").status_code == 403
    ottla.run("mirror", "pause", flow)
    ottla.run("mirror", "delete", flow, "--yes")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({}, "its certificate is not trusted"),
        ({"ssl.ca.location": "CA"}, "asks who you are (it accepts Basic, Bearer, Certificate)"),
        (
            {"ssl.ca.location": "CA", "basic.auth.user.info": "ann:guessed-and-never-told"},
            "does not accept the password of ann",
        ),
        ({"ssl.ca.location": "CA", "bearer.auth.token": "guessed-and-never-told"}, "does not accept the token"),
        ({"ssl.ca.location": "CA", "basic.auth.userinfo": "ann:x"}, "basic.auth.userinfo is no setting of it"),
        ({"ssl.ca.location": "/nowhere.pem"}, "ssl.ca.location=/nowhere.pem"),
        ({"ssl.ca.location": "CA", "bearer.auth.token": "${env:NOT_SET}"}, "no variable NOT_SET"),
    ],
)
@pytest.mark.parametrize("command", ["connect list", "sql -e 'SHOW PIPELINES'"])
def test_who_is_not_let_in_is_told_why_in_a_line(
    place: Place, command: str, file: dict[str, str], words: str
) -> None:
    ottla = place.ottla({key: value.replace("CA", place.ca) for key, value in file.items()})
    done = ottla.run(*shlex.split(command), fails_with=1)
    told = done.stderr.decode()
    assert words in told
    assert told.strip().count("\n") == 0
    assert "guessed-and-never-told" not in told


@pytest.mark.parametrize(
    "file",
    [
        {"basic.auth.user.info": "ann:${file:PASSWORD}"},
        {"bearer.auth.token": "${env:TOKEN}"},
        {"ssl.certificate.location": "CERTIFICATE", "ssl.key.location": "KEY"},
    ],
    ids=["password", "token", "certificate"],
)
def test_commands_make_themselves_known_by_each_way(place: Place, file: dict[str, str]) -> None:
    password = place.folder / "password"
    password.write_text(f"{PASSWORD}\n")
    files = place.secured.written(Subject("admin"))
    places = {"PASSWORD": str(password), "CERTIFICATE": str(files.certificate), "KEY": str(files.key)}
    for name, path in places.items():
        file = {key: value.replace(name, path) for key, value in file.items()}
    ottla = place.ottla({"ssl.ca.location": place.ca, **file}, TOKEN=place.issuer.token("ann"))
    assert ottla.json("connect", "list") == []
    assert b"ann" not in ottla.run("connect", "plugins").stdout
    assert ottla.run("sql", "-e", "SHOW PIPELINES").returncode == 0


def test_a_profile_has_the_settings_for_its_own_workers_and_sends_them_nowhere_else(place: Place) -> None:
    made = place.ottla({"ssl.ca.location": place.ca, "basic.auth.user.info": f"ann:{PASSWORD}"})
    file = made.environment.pop("OTTLA_REST_CONFIG")
    url = place.report["connect"][0]
    typed = ("--connect-url", url, "--rest-config", file, "-b", place.report["bootstrap"])
    made.run("profile", "create", "lab", *typed, "--replace")
    assert PASSWORD not in (place.folder / "ottla" / "profiles.json").read_text()
    assert made.json("--profile", "lab", "connect", "list") == []
    elsewhere = made.run(
        "--profile", "lab", "connect", "list", "--connect-url", place.report["mirror"][0], fails_with=1
    ).stderr.decode()
    assert "not trusted" in elsewhere, "not even the authorities are another place's"


def test_a_password_that_is_taken_away_opens_nothing_any_more(place: Place) -> None:
    url = place.report["connect"][1]
    command = Ottla("")
    with place.client(url, **authorization("cid", PASSWORD)) as client:
        assert client.get("/").status_code == 401
        command.run("secure", "rest-user", str(place.users), "cid", "--password-file", "-", stdin=PASSWORD.encode())
        eventually(lambda: client.get("/").status_code == 200, "the file is read again")
        command.run("secure", "rest-user", str(place.users), "cid", "--delete")
        eventually(lambda: client.get("/").status_code == 401, "the file is read again")


def test_renewed_certificates_are_taken_up_without_a_restart(place: Place) -> None:
    url = place.report["connect"][0]
    host, port = url.removeprefix("https://").split(":")
    before = ssl.get_server_certificate((host, int(port)))
    Ottla("").run("secure", "renew", str(place.secured.tls))
    assert ssl.get_server_certificate((host, int(port))) != before
    assert place.ottla().json("connect", "list") == []


def test_changes_go_on_when_the_leading_worker_was_killed(place: Place) -> None:
    """The one that is left leads, by a session key in the config topic that it knew as a follower."""
    (first, second) = place.report["connect"]
    (worker,) = place.secured.services("connect")[:1]
    with place.client(second, "admin") as client:
        os.kill(worker.pid, signal.SIGKILL)

        def is_made() -> bool:  # 409 is the answer while the workers rebalance as well
            return client.post("/connectors", json=connector("after")).status_code == 201 or is_there()

        def is_there() -> bool:
            return "after" in client.get("/connectors").json()

        eventually(is_made, "it is made")
        eventually(is_there, "it is there")
        assert client.delete("/connectors/after").status_code == 204
    with place.client(first) as back:
        eventually(lambda: _health(back) == 200, "the killed one is back")


def _health(client: httpx.Client) -> int:
    try:
        return client.get("/health").status_code
    except httpx.HTTPError:
        return 0
