"""Which topics a cluster has: asked quickly, and with errors in one line."""

import difflib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla_sdk.kafka.broker_probe import problems_of
from ottla_sdk.kafka.client_settings import ClientRules, ClientSettingError, librdkafka_settings
from ottla_spark.datasource.described_topics import described
from ottla_spark.sql.sql_errors import SqlProblem, UsageProblem

PORT_DEFAULT = 9092
ANSWER_TIMEOUT_S = 5.0
KEPT_S = 1.0
"""How long an answer counts as new; completion asks with every key that is pressed."""
NEAR_NAMES_MAX = 3
INTERNAL = "__"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the cluster."""

    name: str
    partitions: int
    replicas: int


class Topics:
    """What the cluster says of its topics.

    Args:
        bootstrap: brokers to ask first, as HOST:PORT with commas between them.
        client_settings: librdkafka's, or those of Java's clients.

    Raises:
        SqlProblem: nobody listens there, or a setting is wrong.
    """

    def __init__(self, bootstrap: str, client_settings: Mapping[str, str]) -> None:
        settings = _librdkafka_settings(client_settings)
        check_reachable(bootstrap, settings)
        quiet = logging.getLogger("ottla_spark.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self.bootstrap = bootstrap
        try:
            self._client = AdminClient(
                {"bootstrap.servers": bootstrap, "client.id": "ottla-sql", **settings}, logger=quiet
            )
        except KafkaException as error:
            raise UsageProblem(f"--property: {error.args[0].str()}") from None
        self._known: Mapping[str, Topic] = {}
        self._cluster_id = ""
        self._asked_s = -KEPT_S

    def all(self) -> Mapping[str, Topic]:
        """Return the topics by name, internal ones too.

        Raises:
            SqlProblem: the cluster does not answer.
        """
        if time.monotonic() - self._asked_s < KEPT_S:
            return self._known
        try:
            found = self._client.list_topics(timeout=ANSWER_TIMEOUT_S)
        except KafkaException as error:
            raise SqlProblem(
                f"what listens at {self.bootstrap} did not answer as a broker within {ANSWER_TIMEOUT_S:g} s "
                f"({error.args[0].str()}): is it one, and does it want TLS or a password? --property says which"
            ) from None
        self._known = {
            name: Topic(
                name, len(topic.partitions), max((len(p.replicas) for p in topic.partitions.values()), default=0)
            )
            for name, topic in found.topics.items()
        }
        self._cluster_id = str(found.cluster_id or "")
        self._asked_s = time.monotonic()
        return self._known

    def cluster_id(self) -> str:
        """Return the id of the cluster; empty if it tells none.

        Raises:
            SqlProblem: the cluster does not answer.
        """
        self.forget()
        self.all()
        return self._cluster_id

    def visible(self) -> list[Topic]:
        """Return the topics that people made, by name."""
        return [topic for name, topic in sorted(self.all().items()) if not name.startswith(INTERNAL)]

    def next_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset that each partition's next record gets.

        Raises:
            SqlProblem: the cluster does not answer.
        """
        found = self.all().get(topic)
        wanted = {
            TopicPartition(topic, number): OffsetSpec.latest()  # type: ignore[no-untyped-call] # the library's
            for number in range(found.partitions if found else 0)
        }
        try:
            futures = self._client.list_offsets(wanted, request_timeout=ANSWER_TIMEOUT_S) if wanted else {}
            return {each.partition: future.result().offset for each, future in futures.items()}
        except KafkaException as error:
            raise SqlProblem(f"topic {topic}: {error.args[0].str()}") from None

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic, which another of its name does not have; empty if the cluster tells none.

        Raises:
            SqlProblem: the cluster does not answer.
        """
        try:
            return described(self._client, [topic], ANSWER_TIMEOUT_S).ids.get(topic, "")
        except KafkaException as error:
            raise SqlProblem(f"topic {topic}: {error.args[0].str()}") from None

    def check_names(self, names: Iterable[str]) -> None:
        """Check that there are topics of these names, which nothing else can have.

        Raises:
            SqlProblem: there is none of one of them, or the cluster does not answer.
        """
        for name in names:
            if matching(name, self.all()) is None:
                near = meant(name, (each.name for each in self.visible()), "TABLES")
                raise SqlProblem(f"there is no topic and no table {name}{near}")

    def forget(self) -> None:
        """Ask again the next time."""
        self._asked_s = -KEPT_S


def matching(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is meant: the same one, or else the only one that differs in case alone."""
    names = list(known)
    if name in names:
        return name
    similar = [each for each in names if each.lower() == name.lower()]
    return similar[0] if len(similar) == 1 else None


def near_names(name: str, known: Iterable[str]) -> Sequence[str]:
    """Return the known names that somebody who typed this one may have meant, the nearest first."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, NEAR_NAMES_MAX)
    return [by_lower[each] for each in near]


def meant(name: str, known: Iterable[str], listed: str) -> str:
    """Return the end of a sentence about a name that nothing has: what may be meant, or how to see what there is.

    Args:
        name: as it was typed.
        known: the names that there are.
        listed: what SHOW lists them.
    """
    near = near_names(name, known)
    return f"; did you mean {' or '.join(near)}?" if near else f"; SHOW {listed} lists what there is"


def check_reachable(bootstrap: str, settings: Mapping[str, str]) -> None:
    """Check that a broker answers at one of the addresses; librdkafka itself would try for minutes.

    Args:
        bootstrap: the addresses.
        settings: librdkafka's, which say whether it uses TLS.

    Raises:
        SqlProblem: none does.
    """
    names = [address.strip() for address in bootstrap.split(",")]
    with_tls = settings.get("security.protocol", "plaintext").lower().endswith("ssl")
    problems = problems_of([_split_address(name) for name in names], with_tls=with_tls)
    if problems is not None:
        told = ", ".join(f"{name} ({problem})" for name, problem in zip(names, problems, strict=True))
        raise SqlProblem(
            f"cannot reach {told}; start a local cluster with `ottla up`, or name another with --bootstrap"
        )


def _split_address(address: str) -> tuple[str, int]:
    if address.endswith("]") or ":" not in address:
        return address.strip("[]"), PORT_DEFAULT
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageProblem(f"--bootstrap {address}: write it as HOST:PORT")
    return host.strip("[]"), int(port)


def _librdkafka_settings(written: Mapping[str, str]) -> dict[str, str]:
    try:
        return librdkafka_settings(written, ClientRules())
    except ClientSettingError as error:
        raise UsageProblem("; ".join(f"--property {each}" for each in error.problems)) from None
