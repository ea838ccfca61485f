"""How the worker reaches a cluster: settings of Kafka clients, by purpose, from wherever they may stand.

Of two places the more special one wins: without a prefix, `consumer.…`, `A.…`, `A.consumer.…`, and for a flow
`A->B.source.consumer.…` and its like. The source is read as a *consumer*, the target written as a *producer*, and
both are asked for everything else as an *admin*.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ottla_core.client.security import ClientSecurity
from ottla_core.config import HostPort, parse_address
from ottla_core.errors import ConfigurationError
from ottla_mirror.config.settings_table import CLIENT_FIELDS
from ottla_sdk.kafka.client_settings import ClientRules, ClientSettingError, librdkafka_settings

Purpose = Literal["admin", "consumer", "producer"]
PURPOSES: Final[tuple[Purpose, ...]] = ("admin", "consumer", "producer")
BOOTSTRAP: Final = "bootstrap.servers"
FETCH_MAX_BYTES: Final = 8 * 1024 * 1024
MAX_PARTITION_FETCH_BYTES: Final = 1024 * 1024
FETCH_MAX_WAIT_MS: Final = 500
REQUEST_TIMEOUT_MS: Final = 30_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
START: Final = "auto.offset.reset"
_NUMBERS: Final[Mapping[str, int]] = {
    "fetch.max.bytes": FETCH_MAX_BYTES,
    "fetch.max.wait.ms": FETCH_MAX_WAIT_MS,
    "max.partition.fetch.bytes": MAX_PARTITION_FETCH_BYTES,
    "max.request.size": MAX_PARTITION_FETCH_BYTES,
    "request.timeout.ms": REQUEST_TIMEOUT_MS,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How a cluster is reached for one purpose.

    Attributes:
        bootstrap: addresses of some brokers.
        security: TLS and login under librdkafka's names, resolved: secrets are in it.
        numbers: settings that are numbers, by Java's name, with their defaults.
        client_id: the name under which brokers count us; empty for the worker's own.
        start: where a partition begins that was never copied.
    """

    bootstrap: tuple[HostPort, ...]
    security: Mapping[str, str]
    numbers: Mapping[str, int]
    client_id: str = ""
    start: Literal["earliest", "latest"] = "earliest"

    def __repr__(self) -> str:
        return f"ClientConfig({','.join(map(str, self.bootstrap))})"  # secrets stay out of logs

    def client_security(self) -> ClientSecurity:
        """Return what connections are made with; reads files.

        Raises:
            ConfigurationError: something is missing, or a file cannot be used.
        """
        return ClientSecurity.of(self.security)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterClients:
    """How a cluster is reached for every purpose."""

    admin: ClientConfig
    consumer: ClientConfig
    producer: ClientConfig

    def of(self, purpose: Purpose) -> ClientConfig:
        """Return that for one purpose."""
        found: ClientConfig = getattr(self, purpose)
        return found


def cluster_clients(layers: Iterable[Mapping[str, str]], where: str) -> tuple[ClusterClients | None, list[str]]:
    """Return how a cluster is reached, or what is wrong with that, as sentences.

    Args:
        layers: settings with Java's names, some with a purpose before them, the more special ones later.
        where: what stands before the keys, for messages.
    """
    merged: dict[Purpose, dict[str, str]] = {purpose: {} for purpose in PURPOSES}
    for layer in layers:
        # What is for one purpose comes last, as it counts before what is for all.
        for key, value in sorted(layer.items(), key=lambda each: each[0].partition(".")[0] in PURPOSES):
            purpose, _, rest = key.partition(".")
            if purpose in PURPOSES:
                merged[purpose][rest] = value
            else:
                for settings in merged.values():
                    settings[key] = value
    found: dict[str, ClientConfig] = {}
    problems: list[str] = []
    for purpose, settings in merged.items():
        client, wrong = _client(settings, where)
        problems += [each for each in wrong if each not in problems]
        if client is not None:
            found[purpose] = client
    return (None, problems) if problems else (ClusterClients(**found), [])


def _client(settings: Mapping[str, str], where: str) -> tuple[ClientConfig | None, list[str]]:
    problems: list[str] = []
    bootstrap = []
    for address in (each.strip() for each in settings.get(BOOTSTRAP, "").split(",")):
        if not address:
            continue
        try:
            bootstrap.append(parse_address(address.rpartition("://")[2]))
        except ValueError as error:
            problems.append(f"{where}{BOOTSTRAP}: {error}")
    if not bootstrap and not problems:
        problems.append(f"{where}{BOOTSTRAP}: must be set, as HOST:PORT of some brokers")
    numbers = dict(_NUMBERS)
    for key in _NUMBERS.keys() & settings.keys():
        text = settings[key].strip()
        if text.isdecimal() and int(text) > 0:
            numbers[key] = int(text)
        else:
            problems.append(f"{where}{key}: write a positive number, not {text!r}")
    start = settings.get(START, "earliest").strip().lower()
    if start not in ("earliest", "latest"):
        problems.append(f"{where}{START}: write earliest or latest, not {start!r}")
    secured = {key: value for key, value in settings.items() if key not in CLIENT_FIELDS}
    try:
        security = librdkafka_settings(secured, ClientRules(), prefix=where)
        ClientSecurity.of(security)
    except ClientSettingError as error:
        problems += [f"{where}{problem}" for problem in error.problems]
    except ConfigurationError as error:
        problems.append(f"{where}{error}")
    if problems:
        return None, problems
    client = ClientConfig(
        bootstrap=tuple(bootstrap),
        security=security,
        numbers=numbers,
        client_id=settings.get("client.id", ""),
        start="latest" if start == "latest" else "earliest",
    )
    return client, []
