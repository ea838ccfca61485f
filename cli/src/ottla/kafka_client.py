"""How every command reaches a cluster: the common options, librdkafka's configuration, and its errors in plain words.

librdkafka itself keeps trying for minutes and logs to standard error. Commands instead check first that a broker
answers at a bootstrap address (`broker_probe.py`), keep librdkafka's log lines to themselves, and
turn its errors into `OperationError`. Settings may have the names that Java's clients know (`ottla_sdk.kafka`).
"""

import logging
import time
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.output import note
from ottla.profiles.profile_choice import client_settings, typed_settings
from ottla.typed_secrets import warn_of_secrets
from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.kafka_access import CLIENT_ID, check_reachable, checked_admin_client, plain_errors, topics_of
from ottla_sdk.kafka.hung_consumers import close_within

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
CREATION_POLL_S = 0.1
CLOSED_WITHIN_S = 3.0
BROKERS_OTHERWISE = frozenset({"bootstrap.servers", "metadata.broker.list"})
"""librdkafka's names for what `--bootstrap` says."""

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", envvar="OTTLA_BOOTSTRAP", metavar="HOST:PORT[,…]", help="Brokers to connect to first."
    ),
]
ClientProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        metavar="KEY=VALUE",
        callback=warn_of_secrets,
        help="Setting of librdkafka or a Java client, such as security.protocol=ssl; repeatable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def client_config(
    bootstrap: str,
    properties: Sequence[str] | None,
    *,
    option: str = "--property",
    address_option: str = "--bootstrap",
    of_profile: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return librdkafka's configuration for a command: what was typed wins over what the profile has.

    Args:
        bootstrap: where the cluster is.
        properties: what was typed, each as KEY=VALUE.
        option: by which option, for messages.
        address_option: the option that names the brokers, for messages.
        of_profile: what the profile has; by default that of the profile in use, if it is about this cluster.

    Raises:
        UsageProblem: a property is no KEY=VALUE, names other brokers, or has no counterpart in librdkafka.
        OperationError: what ${env:NAME} or ${file:PATH} stands for in a property is not there.
    """
    quiet = logging.getLogger("ottla.librdkafka")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "client.id": CLIENT_ID, "logger": quiet}
    typed = typed_settings(parse_assignments(properties or (), option), option)
    known = client_settings(bootstrap) if of_profile is None else of_profile
    kept = {key: value for key, value in known.items() if key not in typed}
    settings = {**kept, **typed}  # of two names for the same thing the later one wins
    for key in BROKERS_OTHERWISE & settings.keys():  # nobody would have asked them, and they would be sent the logins
        raise UsageProblem(f"{option} {key}: name brokers with {address_option}")
    return {**config, **_translated(settings, kept, option)} if settings else config


def _translated(settings: Mapping[str, str], of_profile: Container[str], option: str) -> dict[str, str]:
    from ottla_sdk.kafka.client_settings import (  # noqa: PLC0415 - most commands have no settings
        ClientRules,
        ClientSettingError,
        librdkafka_settings,
    )

    try:
        # Who types a command could as well run what Kerberos, a library or a simulated broker would run.
        return librdkafka_settings(settings, ClientRules(may_run_code=True))
    except ClientSettingError as error:
        told = [f"{'the profile:' if each.key in of_profile else option} {each}" for each in error.problems]
        raise UsageProblem("; ".join(told)) from None


def parse_assignments(assignments: Sequence[str], option: str) -> dict[str, str]:
    """Return the pairs of repeated KEY=VALUE options.

    Raises:
        UsageProblem: one has no key or no equals sign.
    """
    pairs = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise UsageProblem(f"{option} {assignment}: write it as KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return pairs


def admin_client(bootstrap: str, properties: Sequence[str] | None) -> "AdminClient":
    """Return a connected admin client.

    Raises:
        OperationError: nothing listens at the bootstrap addresses.
    """
    return checked_admin_client(client_config(bootstrap, properties))


def producer_client(bootstrap: str, properties: Sequence[str] | None, settings: Mapping[str, Any]) -> "Producer":
    """Return a producer; properties of the user win over the command's settings.

    Raises:
        OperationError: nothing listens at the bootstrap addresses, or a setting is bad.
    """
    config = client_config(bootstrap, properties)
    check_reachable(bootstrap, config)
    from confluent_kafka import Producer  # noqa: PLC0415

    with plain_errors(bootstrap):
        return Producer({**settings, **config})


def consumer_client(bootstrap: str, properties: Sequence[str] | None, settings: Mapping[str, Any]) -> "Consumer":
    """Return a consumer for assigned partitions; it joins no group.

    Raises:
        OperationError: nothing listens at the bootstrap addresses, or a setting is bad.
    """
    config = client_config(bootstrap, properties)
    check_reachable(bootstrap, config)
    from confluent_kafka import Consumer  # noqa: PLC0415

    # librdkafka wants a group's name even where none is joined and nothing is committed.
    fixed = {"group.id": "ottla-consume-without-group", "enable.auto.commit": False}
    with plain_errors(bootstrap):
        return Consumer({**settings, **fixed, **config})


def group_consumer_client(
    bootstrap: str, properties: Sequence[str] | None, settings: Mapping[str, Any]
) -> "Consumer":
    """Return a consumer that is to join a group, which the settings name; properties of the user win over them.

    Raises:
        OperationError: nothing listens at the bootstrap addresses, or a setting is bad.
    """
    config = client_config(bootstrap, properties)
    check_reachable(bootstrap, config)
    from confluent_kafka import Consumer  # noqa: PLC0415

    with plain_errors(bootstrap):
        return Consumer({**settings, **config})


def close(consumer: "Consumer") -> None:
    """Close a consumer, and leave its group if it has one; one that hangs must not keep the command from ending."""
    if not close_within(consumer, CLOSED_WITHIN_S):
        note(f"ottla: the consumer could not be closed within {CLOSED_WITHIN_S:.0f} s")


def partition_count(
    client: "Producer | Consumer", topic: str, bootstrap: str, *, creation_wait_s: float = 0.0
) -> int:
    """Return how many partitions a topic has.

    Args:
        client: a producer's question makes a broker that creates topics by itself create it.
        topic: the topic's name.
        bootstrap: where the client connects, for messages.
        creation_wait_s: seconds to wait for that.

    Raises:
        OperationError: there is no such topic.
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415

    missing = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)
    deadline = time.monotonic() + creation_wait_s
    with plain_errors(bootstrap):
        found = topics_of(client, topic)[topic]
        while found.error is not None and found.error.code() in missing and time.monotonic() < deadline:
            time.sleep(CREATION_POLL_S)
            found = topics_of(client, topic)[topic]
    if found.error is not None:
        if found.error.code() in missing:
            raise OperationError(f"there is no topic {topic}; create it with `ottla topic create {topic}`")
        raise OperationError(f"topic {topic}: {found.error.str()}")
    return len(found.partitions)
