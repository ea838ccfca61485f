"""One attempt to write a record, by clients that others wrote, over any protocol and with any login.

Each function returns None if the record was written, and otherwise all that the client has said: in its exceptions,
by its callbacks, and in its log. `java_attempts` makes many in one process, as starting Java takes longest.
"""

import asyncio
import logging
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider

from tests.support.reference.kafka_jars import kafka_classpath

REFUSED_SECONDS_MAX = 15
"""A client that is to be refused, has not written by then, and has said nothing, was refused without an error."""
WRITTEN_SECONDS_MAX = 60
"""A client that is to get in has so long, on a busy machine."""
PYTHON_REFUSED_SECONDS_MAX = 5
"""For so long kafka-python tries again and again, whatever the error."""
JAVA_DEADLINE_S = 300
JAVA_PROGRAM = Path(__file__).parents[2] / "compat/java/SecuredAttempts.java"
LOGIN_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
    "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How a client connects.

    Attributes:
        address: of the broker.
        protocol: as Kafka spells it.
        topic: to which it writes.
        authority: PEM file; None without TLS.
        certificate: path of PEM files without their endings, `.pem`, `.key`, `-both.pem`; None: it shows none.
        mechanism: empty without a login.
        user: or the id of a delegation token.
        password: or the secret of a delegation token.
        bearer: a bearer token.
        by_delegation_token: whether it logs in by one.
        gets_in: whether it is to succeed, for which it has more time.
    """

    address: str
    protocol: str
    topic: str
    authority: Path | None = None
    certificate: Path | None = None
    mechanism: str = ""
    user: str = ""
    password: str = ""
    bearer: str = ""
    by_delegation_token: bool = False
    gets_in: bool = False

    @property
    def seconds_max(self) -> int:
        """How long the client has."""
        return WRITTEN_SECONDS_MAX if self.gets_in else REFUSED_SECONDS_MAX


def confluent_attempt(attempt: Attempt) -> str | None:
    """librdkafka."""
    told: list[str] = []
    delivered: list[KafkaError | None] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": attempt.address,
        "broker.address.family": "v4",
        "security.protocol": attempt.protocol,
        "message.timeout.ms": attempt.seconds_max * 1000,
        "error_cb": lambda error: told.append(error.str()),
        "log_level": 0,
    }
    if attempt.authority is not None:
        settings["ssl.ca.location"] = str(attempt.authority)
    if attempt.certificate is not None:
        settings["ssl.certificate.location"] = f"{attempt.certificate}.pem"
        settings["ssl.key.location"] = f"{attempt.certificate}.key"
    if attempt.mechanism:
        settings["sasl.mechanism"] = attempt.mechanism
    if attempt.bearer:
        settings["oauth_cb"] = lambda _: (attempt.bearer, time.time() + 300)
    elif attempt.mechanism:
        settings |= {"sasl.username": attempt.user, "sasl.password": attempt.password}
    producer = Producer(settings)
    producer.produce(attempt.topic, b"v", on_delivery=lambda error, _: delivered.append(error))
    ends_at = time.monotonic() + attempt.seconds_max + 2
    while not delivered and not told and time.monotonic() < ends_at:
        producer.poll(0.05)
    producer.purge()
    producer.flush(1)
    if delivered and delivered[0] is None:
        return None
    return " ".join([*told, *(error.str() for error in delivered if error is not None)])


def kafka_python_attempt(attempt: Attempt) -> str | None:
    """kafka-python."""

    class Provider(PythonTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return attempt.bearer

    seconds_max = WRITTEN_SECONDS_MAX if attempt.gets_in else PYTHON_REFUSED_SECONDS_MAX
    settings: dict[str, Any] = {
        "bootstrap_servers": attempt.address,
        "security_protocol": attempt.protocol,
        "bootstrap_timeout_ms": seconds_max * 1000,
        "max_block_ms": seconds_max * 1000,
    }
    if attempt.authority is not None:
        settings["ssl_cafile"] = str(attempt.authority)
    if attempt.certificate is not None:
        settings |= {"ssl_certfile": f"{attempt.certificate}.pem", "ssl_keyfile": f"{attempt.certificate}.key"}
    if attempt.mechanism:
        settings["sasl_mechanism"] = attempt.mechanism
    if attempt.bearer:
        settings["sasl_oauth_token_provider"] = Provider()
    elif attempt.mechanism:
        settings |= {"sasl_plain_username": attempt.user, "sasl_plain_password": attempt.password}
    with _logged("kafka") as said:
        try:
            producer = KafkaProducer(**settings)
            try:
                producer.send(attempt.topic, b"v", partition=0).get(attempt.seconds_max)
            finally:
                producer.close(timeout=1)
        except Exception as error:  # noqa: BLE001 - whatever the client raises
            return " ".join([repr(error), *said])
    return None


def aiokafka_attempt(attempt: Attempt) -> str | None:
    """aiokafka."""

    class Provider(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return attempt.bearer

    settings: dict[str, Any] = {
        "bootstrap_servers": attempt.address,
        "security_protocol": attempt.protocol,
        "request_timeout_ms": attempt.seconds_max * 500,
    }
    if attempt.protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=None if attempt.authority is None else str(attempt.authority))
        if attempt.certificate is not None:
            context.load_cert_chain(f"{attempt.certificate}.pem", f"{attempt.certificate}.key")
        settings["ssl_context"] = context
    if attempt.mechanism:
        settings["sasl_mechanism"] = attempt.mechanism
    if attempt.mechanism and not attempt.bearer:
        settings |= {"sasl_plain_username": attempt.user, "sasl_plain_password": attempt.password}

    async def write() -> None:
        if attempt.bearer:
            settings["sasl_oauth_token_provider"] = Provider()
        producer = AIOKafkaProducer(**settings)
        try:
            async with asyncio.timeout(attempt.seconds_max):
                await producer.start()
                await producer.send_and_wait(attempt.topic, b"v", partition=0)
        finally:
            await producer.stop()

    with _logged("aiokafka") as said:
        try:
            asyncio.run(write())
        except Exception as error:  # noqa: BLE001 - whatever the client raises
            return " ".join([repr(error), *said])
    return None


def java_attempts(attempts: Mapping[str, Attempt], folder: Path) -> dict[str, str | None]:
    """Kafka's own client: returns what it has said of each attempt, by the attempts' names."""
    for name, attempt in attempts.items():
        lines = "".join(f"{key}={_escaped(value)}\n" for key, value in _java_settings(attempt, folder, name).items())
        (folder / f"{name}.properties").write_text(lines, encoding="ascii")
    tokens = ",".join(f"file://{folder / name}.jwt" for name, attempt in attempts.items() if attempt.bearer)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens}"
    ran = subprocess.run(
        ["java", allowed, "-cp", kafka_classpath(), str(JAVA_PROGRAM), str(folder)],
        capture_output=True,
        text=True,
        timeout=JAVA_DEADLINE_S,
        check=False,
    )
    outcomes: dict[str, str | None] = {}
    for line in ran.stdout.splitlines():
        name, tab, told = line.partition("\t")
        if tab and name in attempts:
            outcomes[name] = None if told == "written" else told
    assert outcomes.keys() == attempts.keys(), ran.stdout + ran.stderr
    return outcomes


def _java_settings(attempt: Attempt, folder: Path, name: str) -> dict[str, str]:
    settings = {
        "bootstrap.servers": attempt.address,
        "security.protocol": attempt.protocol,
        "topic": attempt.topic,
        "timeout.ms": str(attempt.seconds_max * 1000),
    }
    if attempt.authority is not None:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(attempt.authority)}
    if attempt.certificate is not None:
        settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{attempt.certificate}-both.pem"}
    if attempt.mechanism:
        settings["sasl.mechanism"] = attempt.mechanism
        module = f"org.apache.kafka.common.security.{LOGIN_MODULES[attempt.mechanism]}"
        options = "" if attempt.bearer else f' username="{attempt.user}" password="{attempt.password}"'
        by_token = ' tokenauth="true"' if attempt.by_delegation_token else ""
        settings["sasl.jaas.config"] = f"{module} required{options}{by_token};"
    if attempt.bearer:
        (folder / f"{name}.jwt").write_text(attempt.bearer)
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        settings |= {
            "sasl.login.callback.handler.class": handler,
            "sasl.oauthbearer.token.endpoint.url": f"file://{folder / name}.jwt",
        }
    return settings


def _escaped(text: str) -> str:
    """Returns a value as Java's properties files have it."""
    return "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in text.replace("\\", "\\\\"))


@contextmanager
def _logged(name: str) -> Iterator[list[str]]:
    """Gathers what a client says in its log, warnings and worse."""
    said: list[str] = []

    class Gathering(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    handler, logger = Gathering(logging.WARNING), logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
