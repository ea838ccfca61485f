"""Nothing that is secret is told: each secret of a secured cluster is planted, used, and looked for everywhere.

Secrets among the settings are those that the services' models mark, so a new one is planted without a change here.
The cluster is used rightly and wrongly: logins that succeed and fail, connectors and flows that fail, a process that
crashes. Then logs, command lines, variables, etcd, data, answers and pages are searched.
"""

import base64
import json
import os
import signal
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import i64Timedelta

from ottla.secure.authority import IssuedCertificate, Subject, issue, new_authority
from tests.support.child_process import ChildProcess
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.ottla_command import Ottla
from tests.support.clusters.service_models import SERVICE_MODELS
from tests.support.clusters.service_process import service_command
from tests.support.eventually import eventually
from tests.support.free_ports import LOOPBACK, free_port_block, free_ports
from tests.support.planted_secrets import PlantedSecrets, files_below, of_processes
from tests.support.servers.issuer import Issuer
from tests.support.servers.token_endpoint import TokenServer

pytestmark = pytest.mark.slow

MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
BEARER = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
DAY = timedelta(days=1)
NOBODY_LISTENS = 1
"""A port to which nobody connects, so that whatever is sent there fails."""


class LeakingCluster:
    """A secured cluster of one process of each kind, with all secrets that it can have.

    Attributes:
        secrets: what was planted, and made by it.
        told: what commands and pages have told, by their name.
    """

    def __init__(self, folder: Path, tokens: TokenServer) -> None:
        self.folder, self.tokens = folder, tokens
        self.directory = folder / "cluster"
        self.secrets = PlantedSecrets()
        self.told: dict[str, bytes] = {}
        self.issuer = Issuer()
        (folder / "keys.json").write_bytes(self.issuer.key_set())
        self.logins, self.store = (f"{LOOPBACK}:{port}" for port in free_ports(2))
        self.passwords = {
            name: self.secrets.marker(f"password of {name}") for name in ("plain-ann", "wrong", "scram-bob")
        }
        self.ottla = Ottla("")
        self.ottla.environment = {"OTTLA_DIR": str(self.directory), "XDG_CONFIG_HOME": str(folder / "profiles")}
        self.settings = [*self._marked_settings(), *self._listeners(), *self._workers()]

    def __enter__(self) -> "LeakingCluster":
        port = free_port_block(1)
        options = ["--secure", "--detach", "--base-port", str(port), "--connect", "1", "--mirror", "1"]
        options += ["--connect-port", "0", "--mirror-port", "0"]
        typed = [word for setting in self.settings for word in ("--set", setting)]
        started = self.ottla.run("up", *options, *typed)
        self.told["ottla up"] = started.stdout + started.stderr
        self.tokens.status = 401
        return self

    def __exit__(self, *_: object) -> None:
        self.ottla.run("down")

    def _marked_settings(self) -> Iterator[str]:
        """Every setting that a model marks, in its form."""
        forms = {
            "scram.bootstrap.users": "SCRAM-SHA-512=[name=scram-ann,password={}]",
            "metrics.otlp.headers": "authorization=Bearer {}",
            "traces.otlp.headers": "authorization=Bearer {}",
        }
        receiver = f"http://{LOOPBACK}:{NOBODY_LISTENS}"
        for role, model in SERVICE_MODELS.items():
            for key in sorted(model.secret_keys()):
                marker = self.secrets.marker(f"{role}:{key}")
                yield f"{role}:{key}={forms.get(key, '{}').format(marker)}"
            if "metrics.otlp.headers" in model.secret_keys():
                yield f"{role}:metrics.otlp.endpoint={receiver}"
                yield f"{role}:metrics.otlp.interval.ms=500"
            if "traces.otlp.headers" in model.secret_keys():
                yield f"{role}:traces.otlp.endpoint={receiver}"
                yield f"{role}:traces.sample.ratio=1"

    def _listeners(self) -> Iterator[str]:
        """A listener with logins and PEM in settings, and one with key stores in files."""
        authority = new_authority("authority of listeners", datetime.now(UTC), DAY)
        (self.folder / "ca.pem").write_bytes(authority.chain)
        issued = issue(authority, Subject("broker", (LOOPBACK,)), datetime.now(UTC), DAY)
        key_word, store_word, trust_word = (
            self.secrets.marker(f"password of the {what}") for what in ("key", "key store", "trust store")
        )
        key = _encrypted(issued, key_word)
        for number, line in enumerate(key.splitlines()[1:-1]):
            self.secrets.learn(f"line {number} of the private key", line)
        users = self.folder / "users"
        users.write_text(f"filed={self.secrets.marker('a user in a file')}\n")
        for name, content in _stores(issued, store_word, trust_word).items():
            (self.folder / name).write_bytes(content)
        logins, store = "broker:listener.name.logins.", "broker:listener.name.store."
        yield f"broker:listeners=LOGINS://{self.logins},STORE://{self.store}"
        yield "broker:listener.security.protocol.map=SSL:SSL,LOGINS:SASL_SSL,STORE:SSL"
        yield f"{logins}ssl.keystore.location="
        yield f"{logins}ssl.keystore.certificate.chain={_in_one_line(issued.chain)}"
        yield f"{logins}ssl.keystore.key={_in_one_line(key)}"
        yield f"{logins}ssl.key.password={key_word}"
        yield f"{logins}ssl.client.auth=none"
        yield f"{logins}sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER"
        yield f'{logins}plain.sasl.jaas.config={PLAIN} user_plain-ann="{self.passwords["plain-ann"]}";'
        yield f"{logins}plain.sasl.plain.users.location={users}"
        yield f"{logins}sasl.oauthbearer.jwks.endpoint.url={(self.folder / 'keys.json').as_uri()}"
        yield f"{store}ssl.keystore.type=PKCS12"
        yield f"{store}ssl.keystore.location={self.folder / 'own.p12'}"
        yield f"{store}ssl.keystore.password={store_word}"
        yield f"{store}ssl.truststore.type=PKCS12"
        yield f"{store}ssl.truststore.location={self.folder / 'trusted.p12'}"
        yield f"{store}ssl.truststore.password={trust_word}"
        yield f"broker:config.providers.vault.param.token={self.secrets.marker('a parameter of a config provider')}"

    def _workers(self) -> Iterator[str]:
        """Secrets of the workers' clients: a client secret that a token server refuses, a file for references."""
        references = self.folder / "references.properties"
        references.write_text(
            f"login={self.passwords['wrong']}\nbearer={self.secrets.marker('a token of a connector')}\n"
        )
        yield "connect:config.providers=file"
        yield "connect:config.providers.file.class=FileConfigProvider"
        yield f"connect:config.providers.file.param.allowed.paths={references}"
        yield f"connect:value.converter.basic.auth.user.info=ann:{self.secrets.marker('a login at a registry')}"
        yield "mirror:clusters=local,far"
        client_secret = self.secrets.marker("a client secret")
        token = self.issuer.token("mirror-1")  # who may do everything in this cluster
        self.secrets.learn("the mirror's token", token.encode())
        self.tokens.gives(token, life_s=1)
        far = {
            "bootstrap.servers": self.logins,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
            "sasl.jaas.config": f'{BEARER} clientId="mirror" clientSecret="{client_secret}";',
        }
        for key, value in far.items():
            yield f"mirror:far.{key}={value}"

    @property
    def report(self) -> Any:
        return json.loads((self.directory / "cluster.json").read_text())

    def pid_of(self, name: str) -> int | None:
        """None while it is being started."""
        (pid,) = [each["pid"] for each in self.report["processes"] if each["name"] == name]
        return None if pid is None else int(pid)

    def log_of(self, name: str) -> str:
        return (self.directory / "logs" / f"{name}.log").read_text(errors="replace")

    def client(self, user: str, password: str, mechanism: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.logins,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }

    def admin(self) -> AdminClient:
        lines = (self.directory / "tls" / "admin" / "client.properties").read_text().splitlines()
        return AdminClient(dict(line.split("=", 1) for line in lines))

    def rest(self, role: str) -> httpx.Client:
        """Asks a worker as the administrator."""
        files = self.directory / "tls" / "admin"
        context = ssl.create_default_context(cafile=str(files / "ca.pem"))
        context.load_cert_chain(files / "certificate.pem", files / "key.pem")
        (url,) = self.report[role]
        return httpx.Client(base_url=url, verify=context, timeout=60, trust_env=False)

    def run(self, *arguments: str, stdin: bytes = b"", within: tuple[int, ...] = (0,)) -> None:
        """Runs a command and keeps what it tells."""
        environment = {**os.environ, **self.ottla.environment}
        command = [service_command("ottla"), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=120, env=environment)
        assert done.returncode in within, done.stderr.decode()
        self.told["ottla " + " ".join(arguments[:3])] = done.stdout + done.stderr


def _encrypted(issued: IssuedCertificate, password: str) -> bytes:
    key = serialization.load_pem_private_key(issued.key, None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )


def _stores(issued: IssuedCertificate, own_word: str, trust_word: str) -> dict[str, bytes]:
    key = serialization.load_pem_private_key(issued.key, None)
    certificate = x509.load_pem_x509_certificate(issued.chain)
    own, trusted = (serialization.BestAvailableEncryption(word.encode()) for word in (own_word, trust_word))
    return {
        "own.p12": pkcs12.serialize_key_and_certificates(b"own", key, certificate, None, own),  # type: ignore[arg-type]
        "trusted.p12": pkcs12.serialize_key_and_certificates(b"trusted", None, None, [certificate], trusted),
    }


def _in_one_line(pem: bytes) -> str:
    return pem.decode().strip().replace("\n", "\\n")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LeakingCluster]:
    with TokenServer() as tokens, LeakingCluster(tmp_path_factory.mktemp("leaks"), tokens) as cluster:
        yield cluster


def test_no_secret_is_told_whatever_is_done_with_the_cluster(cluster: LeakingCluster) -> None:
    admin = cluster.admin()
    admin.create_topics([NewTopic("letters", 1, 1)])["letters"].result(30)
    _log_in(cluster)
    _get_tokens(cluster)
    _start_with_wrong_password_of_etcd(cluster)
    _let_connectors_and_flows_fail(cluster)
    _crash(cluster)
    _ask_for_everything(cluster, admin)
    assert not _leaks(cluster)


def _log_in(cluster: LeakingCluster) -> None:
    """Right and wrong passwords, of each mechanism; the command has them from a profile."""
    password = cluster.passwords["scram-bob"]
    admin = str(cluster.directory / "tls" / "admin")
    assert Path(admin).is_dir()
    cluster.run("user", "create", "scram-bob", "--password-file", "-", stdin=f"{password}\n".encode())
    for user, word, mechanism in (
        ("plain-ann", cluster.passwords["plain-ann"], "PLAIN"),
        ("scram-bob", password, "SCRAM-SHA-512"),
    ):
        AdminClient(cluster.client(user, word, mechanism)).list_topics(timeout=30)
        refused = AdminClient(cluster.client(user, cluster.passwords["wrong"], mechanism))
        with pytest.raises(KafkaException):
            refused.list_topics(timeout=3)
    typed = {**cluster.client("plain-ann", "${env:ANNS_PASSWORD}", "PLAIN")}
    words = [
        word for key in typed.keys() - {"log_level", "bootstrap.servers"} for word in ("-X", f"{key}={typed[key]}")
    ]
    cluster.run("profile", "create", "logins", "-b", cluster.logins, *words)
    cluster.run("profile", "show", "logins")
    for word, code in ((cluster.passwords["plain-ann"], 0), (cluster.passwords["wrong"], 1)):
        cluster.ottla.environment["ANNS_PASSWORD"] = word
        cluster.run("--profile", "logins", "topic", "list", within=(code,))
    del cluster.ottla.environment["ANNS_PASSWORD"]


def _get_tokens(cluster: LeakingCluster) -> None:
    """A delegation token, by which somebody logs in, and bearer tokens: a right one and an expired one."""
    context = _tls(cluster)
    host, _, port = cluster.logins.rpartition(":")
    with RawClient(host, int(port), tls=context) as owner:
        assert _plain(owner, "plain-ann", cluster.passwords["plain-ann"]) is ErrorCode.none
        made = owner.ask(
            CreateDelegationTokenRequest(
                owner_principal_type=None,
                owner_principal_name=None,
                renewers=(),
                max_lifetime=i64Timedelta.parse(timedelta(hours=1)),
            )
        )
        assert made.error_code is ErrorCode.none
    cluster.secrets.learn("a delegation token", made.hmac)
    cluster.secrets.learn("a delegation token in base64", base64.b64encode(made.hmac))
    for name, life_s in (("a bearer token", 300.0), ("an expired bearer token", -300.0)):
        token = cluster.issuer.token(life_s=life_s)
        cluster.secrets.learn(name, token.encode())
        cluster.secrets.learn(f"the signature of {name}", token.rpartition(".")[2].encode())
        with RawClient(host, int(port), tls=context) as client:
            client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"))
            said = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
            answer = client.ask(SaslAuthenticateRequest(auth_bytes=said))
            assert (answer.auth_bytes == b"") is (life_s > 0)
            if answer.auth_bytes:  # what is wrong, upon which the client ends its login (RFC 7628)
                ended = client.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"))
                assert ended.error_code is ErrorCode.sasl_authentication_failed


def _tls(cluster: LeakingCluster) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(cluster.folder / "ca.pem"))


def _plain(client: RawClient, user: str, password: str) -> ErrorCode:
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"))
    code: ErrorCode = client.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())).error_code
    return code


def _start_with_wrong_password_of_etcd(cluster: LeakingCluster) -> None:
    document = cluster.directory / "config" / "group-coordinator-1.properties"
    settings = dict(line.split("=", 1) for line in document.read_text().splitlines() if not line.startswith("#"))
    settings |= {
        "node.id": "9",
        "etcd.username": "nobody",
        "etcd.password": cluster.secrets.marker("a wrong password of etcd"),
        "rpc.listener": f"{LOOPBACK}:0",
        "metrics.listener": f"{LOOPBACK}:0",
        "log.level": "debug",
    }
    for key in [key for key in settings if key.startswith("rpc.tls.")]:
        del settings[key]
    config, log = cluster.folder / "other.properties", cluster.directory / "logs" / "other.log"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    process = ChildProcess("other", [service_command("ottla-group-coordinator"), "--config", str(config)], log=log)
    process.start()
    try:
        eventually(lambda: "authentication failed" in log.read_text(), "etcd's refusal is logged", within_s=60)
    finally:
        process.kill()


def _let_connectors_and_flows_fail(cluster: LeakingCluster) -> None:
    """A source whose login is refused, a sink whose service is away, a flow without a token; secrets by reference."""
    reference = f"${{file:{cluster.folder / 'references.properties'}:%s}}"
    authorities = cluster.directory / "connector-files" / "ca.pem"
    authorities.write_bytes((cluster.folder / "ca.pem").read_bytes())
    login = {**cluster.client("plain-ann", reference % "login", "PLAIN"), "log_level": "7"}
    login["ssl.ca.location"] = str(authorities)
    source = {
        "connector.class": "ottla_datagen.DatagenSource",
        "topic": "letters",
        "datagen.quickstart": "users",
        **{f"producer.override.{key}": str(value) for key, value in login.items()},
    }
    sink = {
        "connector.class": "ottla_http.HttpSink",
        "topics": "letters",
        "http.url": f"http://{LOOPBACK}:{NOBODY_LISTENS}/",
        "http.auth": "bearer",
        "http.auth.token": reference % "bearer",
        "value.converter": "StringConverter",
    }
    written = {**sink, "http.auth.token": cluster.secrets.marker("a token that is validated"), "http.retries": "none"}
    wrong = {**source, "producer.override.sasl.jaas.config": cluster.secrets.marker("a login that is validated")}
    with cluster.rest("connect") as rest:
        for name, config in (("source", source), ("sink", sink)):
            put = rest.put(f"/connectors/{name}/config", json=config)
            assert put.is_success, put.text
        for name, config in (("ottla_http.HttpSink", written), ("ottla_datagen.DatagenSource", wrong)):
            answer = rest.put(f"/connector-plugins/{name}/config/validate", json=config)
            cluster.told[f"validation of {name}"] = answer.content
            assert answer.is_success, answer.text

        def has_failed() -> bool:
            status = rest.get("/connectors/source/status").json()
            return "FAILED" in json.dumps(status) or "uthentication" in cluster.log_of("connect-1")

        eventually(has_failed, "the source's login is refused", within_s=90)
        for path in (
            "",
            "/source",
            "/source/status",
            "/source/config",
            "/sink/status",
            "/sink/config",
            "/sink/tasks",
        ):
            cluster.told[f"connectors{path}"] = rest.get(f"/connectors{path}").content
    cluster.run("mirror", "create", "far->local", "--topics", "none", within=(0, 1))


def _crash(cluster: LeakingCluster) -> None:
    """A broker tells where it was when it gets this signal, and is started again."""
    before = cluster.pid_of("broker-1")
    assert before is not None
    os.kill(before, signal.SIGABRT)
    eventually(lambda: "Fatal Python error" in _all_logs(cluster), "the crash is logged", within_s=30)
    eventually(lambda: cluster.pid_of("broker-1") not in (before, None), "the broker is back", within_s=60)

    def answers() -> bool:
        try:
            cluster.admin().list_topics(timeout=5)
        except KafkaException:
            return False
        return True

    eventually(answers, "the broker answers", within_s=60)


def _all_logs(cluster: LeakingCluster) -> str:
    return "".join(each.read_text(errors="replace") for each in (cluster.directory / "logs").iterdir())


def _ask_for_everything(cluster: LeakingCluster, admin: AdminClient) -> None:
    asked = [ConfigResource(ResourceType.BROKER, "1"), ConfigResource(ResourceType.TOPIC, "letters")]
    for resource, future in admin.describe_configs(asked).items():
        described = future.result(30)
        cluster.told[f"DescribeConfigs of {resource}"] = repr(described.values()).encode()
        values = {entry.name: entry.value for entry in described.values()}
        cluster.told[f"values of {resource}"] = json.dumps(values).encode()
    for process in cluster.report["processes"]:
        if process["metrics"] is not None:
            page = httpx.get(process["metrics"], timeout=30, trust_env=False)
            cluster.told[f"metrics of {process['name']}"] = page.content
    for role, paths in (
        (
            "connect",
            ("/", "/connector-plugins", "/health", "/connectors?expand=status&expand=info", "/admin/loggers"),
        ),
        ("mirror", ("/", "/flows", "/health", "/clusters")),
    ):
        with cluster.rest(role) as rest:
            cluster.told |= {f"{role} {path}": rest.get(path).content for path in paths}
    for command in (
        ("status", "--json"),
        ("status",),
        ("doctor", "--json"),
        ("top", "--json", "--once"),
        ("config", "describe", "broker", "1"),
        ("user", "list"),
        ("cluster", "describe"),
        ("logs", "-n", "10000"),
        ("connect", "describe", "source"),
    ):
        cluster.run(*command, within=(0, 1, 2, 3))


def _leaks(cluster: LeakingCluster) -> dict[str, set[str]]:
    """Where a secret stands that is not the place where whoever runs the cluster has put it."""
    private = [cluster.directory / "config", cluster.directory / "settings"]
    for path in (cluster.directory / "config").iterdir():
        assert path.stat().st_mode & 0o077 == 0, f"others may read {path}"
    assert cluster.secrets.found_in((cluster.directory / "settings").read_bytes()), "they are found where they are"
    found = {}
    for path in files_below(cluster.directory, without=[*private, cluster.directory / "tls"]):
        found[str(path.relative_to(cluster.directory))] = cluster.secrets.found_in(path.read_bytes())
    for where, content in (*of_processes(), *cluster.told.items()):
        found[where] = cluster.secrets.found_in(content)
    return {where: told for where, told in found.items() if told}
