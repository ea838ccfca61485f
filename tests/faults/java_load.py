"""Kafka's own clients in a trial's load: its verifiable producer and consumer, and what they print. Needs Java.

Both are programs of Kafka's that print every acknowledgement and every record as a line of JSON; these are read as if
they were the notes of our own programs.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.faults.access.client_access import DELEGATION_TOKEN
from tests.faults.access.mechanisms import JAVA, Mechanism
from tests.faults.access.secured_clients import PLAIN_MODULE, Abilities, SecuredClients
from tests.faults.history import ACKNOWLEDGED, FAILED, FROM_BEGINNING, SEEN, line
from tests.faults.topics import JAVA_TOPIC
from tests.support.reference.kafka_jars import java_command

PRODUCER, CONSUMER = "java-producer", "java-consumer"
GROUP = "java"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MODULES = {
    Mechanism.SCRAM_SHA_256: SCRAM_MODULE,
    Mechanism.SCRAM_SHA_512: SCRAM_MODULE,
    Mechanism.PLAIN: PLAIN_MODULE,
}
ABILITIES: Abilities = {PRODUCER: JAVA, CONSUMER: JAVA}
RECORDS_PER_SECOND = 50
KEYS = 12
STOPPED_BY_SIGTERM = 143
COMMON = {
    "request.timeout.ms": "5000",
    "reconnect.backoff.max.ms": "500",
    "metadata.max.age.ms": "2000",
    "retry.backoff.max.ms": "300",
}
PRODUCER_CONFIG = {
    **COMMON,
    "enable.idempotence": "true",
    "retries": "2147483647",
    "delivery.timeout.ms": "120000",
    "linger.ms": "5",
}
CONSUMER_CONFIG = {**COMMON, "default.api.timeout.ms": "60000", "check.crcs": "true"}


def commands(directory: Path, bootstrap: str, clients: SecuredClients | None = None) -> dict[str, list[str]]:
    """What runs the programs, by their names, as whom they log in if there are users."""

    def config(name: str, settings: dict[str, str]) -> str:
        login = {} if clients is None else _login(clients.access_of(name).settings)
        return str(_config(directory / f"{name}.properties", settings | login))

    def where(name: str) -> list[str]:
        servers = bootstrap if clients is None else clients.bootstrap_of(name)
        return ["--bootstrap-server", servers, "--topic", JAVA_TOPIC.name]

    return {
        PRODUCER: java_command(
            "org.apache.kafka.tools.VerifiableProducer",
            *where(PRODUCER),
            *("--throughput", str(RECORDS_PER_SECOND), "--repeating-keys", str(KEYS), "--acks", "-1"),
            *("--command-config", config(PRODUCER, PRODUCER_CONFIG)),
        ),
        CONSUMER: java_command(
            "org.apache.kafka.tools.VerifiableConsumer",
            *where(CONSUMER),
            *("--group-id", GROUP, "--reset-policy", "earliest", "--verbose"),
            *("--command-config", config(CONSUMER, CONSUMER_CONFIG)),
        ),
    }


def producer_notes(printed: Iterable[str]) -> Iterator[str]:
    """What the producer printed as the notes of one of ours."""
    for event in _events(printed):
        if event["name"] == "producer_send_success":
            where = (event["topic"], event["partition"], event["key"], event["value"], event["offset"])
            yield line(ACKNOWLEDGED, *where)
        elif event["name"] == "producer_send_error":
            yield line(FAILED, event["topic"], event["key"], event["value"], event["exception"])


def consumer_notes(printed: Iterable[str]) -> Iterator[str]:
    """What the consumer printed as the notes of one of ours, each record as if another run had begun with it.

    It begins again where its group has committed last, so nothing follows from the order of its records.
    """
    for event in _events(printed):
        if event["name"] == "record_data":
            value = event["value"]
            yield line(FROM_BEGINNING, event["topic"], event["partition"])
            content = (event["key"], value, zlib.crc32(value.encode()))
            yield line(SEEN, event["topic"], event["partition"], event["offset"], *content)


def _events(printed: Iterable[str]) -> Iterator[dict[str, Any]]:
    for text in printed:
        if text.startswith("{") and text.endswith("}\n"):
            yield json.loads(text)


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings of a login in the words of Kafka's own clients."""
    common = {
        "security.protocol": settings["security.protocol"].upper(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": settings["ssl.ca.location"],
    }
    if "ssl.key.location" in settings:
        texts = (Path(settings[f"ssl.{each}.location"]).read_text() for each in ("key", "certificate"))
        in_one_line = (text.replace("\n", " \\\n ") for text in texts)
        return {
            **common,
            "ssl.keystore.type": "PEM",
            **dict(zip(("ssl.keystore.key", "ssl.keystore.certificate.chain"), in_one_line, strict=True)),
        }
    options = f'username="{settings["sasl.username"]}" password="{settings["sasl.password"]}"'
    if DELEGATION_TOKEN in settings:
        options += ' tokenauth="true"'
    module = MODULES[Mechanism(settings["sasl.mechanism"])]
    return {
        **common,
        "sasl.mechanism": settings["sasl.mechanism"],
        "sasl.jaas.config": f"{module} required {options};",
    }


def _config(path: Path, config: dict[str, str]) -> Path:
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    return path
