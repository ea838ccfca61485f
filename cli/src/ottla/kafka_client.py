"""How every command reaches a cluster: the common options, librdkafka's configuration, and its errors in plain words.

librdkafka itself keeps trying for minutes and logs to standard error. Commands instead check first that a broker
answers at a bootstrap address (`broker_probe.py`), keep librdkafka's log lines to themselves, and
turn its errors into `CommandError`. Settings may have the names that Java's clients know (`ottla_sdk.kafka`).
"""

import logging
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.errors import CommandError, UsageProblem
from ottla.interruptible import interruptible
from ottla.output import note
from ottla.profiles.profile_choice import client_settings, typed_settings
from ottla_sdk.kafka.hung_consumers import close_within

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, TopicMetadata

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
KAFKA_PORT_DEFAULT = 9092
CLIENT_ID = "ottla"
REQUEST_TIMEOUT_S = 30.0
LOGIN_WITHIN_S = 4.0
CREATION_POLL_S = 0.1
CLOSED_WITHIN_S = 3.0
PLAINTEXT = "plaintext"
BROKERS_OTHERWISE = frozenset({"bootstrap.servers", "metadata.broker.list"})
"""librdkafka's names for what `--bootstrap` says."""
OWN_SETTINGS = frozenset({"bootstrap.servers", "client.id", "logger"})
"""What a command sets by itself."""

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
        CommandError: what ${env:NAME} or ${file:PATH} stands for in a property is not there.
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


def check_settings(config: Mapping[str, Any]) -> None:
    """Have librdkafka say whether it knows a command's settings, where other connections than its own use them.

    Raises:
        CommandError: it does not know a name, or cannot make use of a value.
    """
    if config.keys() <= OWN_SETTINGS:
        return
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    with plain_errors(str(config["bootstrap.servers"])):
        AdminClient(
            {name: value for name, value in config.items() if name != "bootstrap.servers"}
        )  # connects nowhere


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
        CommandError: nothing listens at the bootstrap addresses.
    """
    config = client_config(bootstrap, properties)
    check_reachable(bootstrap, config)
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - takes a tenth of a second

    with plain_errors(bootstrap):
        return AdminClient(config)


def producer_client(bootstrap: str, properties: Sequence[str] | None, settings: Mapping[str, Any]) -> "Producer":
    """Return a producer; properties of the user win over the command's settings.

    Raises:
        CommandError: nothing listens at the bootstrap addresses, or a setting is bad.
    """
    config = client_config(bootstrap, properties)
    check_reachable(bootstrap, config)
    from confluent_kafka import Producer  # noqa: PLC0415

    with plain_errors(bootstrap):
        return Producer({**settings, **config})


def consumer_client(bootstrap: str, properties: Sequence[str] | None, settings: Mapping[str, Any]) -> "Consumer":
    """Return a consumer for assigned partitions; it joins no group.

    Raises:
        CommandError: nothing listens at the bootstrap addresses, or a setting is bad.
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
        CommandError: nothing listens at the bootstrap addresses, or a setting is bad.
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
        CommandError: there is no such topic.
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
            raise CommandError(f"there is no topic {topic}; create it with `ottla topic create {topic}`")
        raise CommandError(f"topic {topic}: {found.error.str()}")
    return len(found.partitions)


def topics_of(client: "AdminClient | Producer | Consumer", topic: str | None = None) -> "dict[str, TopicMetadata]":
    """Return a topic, or all topics without a name, as a broker describes them; Ctrl-C ends the wait."""
    if topic is None:
        return interruptible(lambda: client.list_topics(timeout=REQUEST_TIMEOUT_S)).topics
    return interruptible(lambda: client.list_topics(topic, timeout=REQUEST_TIMEOUT_S)).topics


def check_reachable(
    bootstrap: str, config: Mapping[str, Any] | None = None, *, address_option: str = "--bootstrap"
) -> None:
    """Check that a broker answers at one of the addresses, and lets this client in.

    Args:
        bootstrap: the addresses.
        config: the client's settings, which say whether it uses TLS or logs in.
        address_option: the option that names them, for messages.

    Raises:
        CommandError: none does, within `broker_probe.PROBE_WITHIN_S`.
        UsageProblem: an address is not HOST:PORT.
    """
    from ottla_sdk.kafka.broker_probe import AN_HTTP_SERVER, problems_of  # noqa: PLC0415 - help has no use for sockets

    names = [address.strip() for address in bootstrap.split(",")]
    protocol = str((config or {}).get("security.protocol", PLAINTEXT)).lower()
    problems = problems_of([split_address(name, address_option) for name in names], with_tls=protocol.endswith("ssl"))
    if problems is None:
        if config is not None and protocol != PLAINTEXT:
            _check_login(config, bootstrap)
        return
    told = ", ".join(f"{name} ({problem})" for name, problem in zip(names, problems, strict=True))
    if AN_HTTP_SERVER in problems:
        raise CommandError(
            f"cannot reach {told}; name a broker with {address_option}, and a Connect worker with --connect-url"
        )
    raise CommandError(
        f"cannot reach {told}; start a local cluster with `ottla up`, or name another with {address_option}"
    )


def _check_login(config: Mapping[str, Any], bootstrap: str) -> None:
    """Have librdkafka log in once, since it tells of what is wrong only in passing and tries again for ever.

    Raises:
        CommandError: certificates or credentials are refused, or nobody answers.
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    final = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._UNSUPPORTED_FEATURE}  # noqa: SLF001 - public
    problems: list[Any] = []
    with plain_errors(bootstrap):
        settings: Any = {**config, "error_cb": problems.append}
        client = AdminClient(settings)
        described = client.describe_cluster(request_timeout=LOGIN_WITHIN_S)
    deadline = time.monotonic() + LOGIN_WITHIN_S
    while not described.done() and time.monotonic() < deadline:
        client.poll(CREATION_POLL_S)
        if refused := [each for each in problems if each.code() in final]:
            raise CommandError(f"{bootstrap} lets this client not in: {refused[0].str()}")
    if not described.done() or described.exception() is not None:
        reason = f" ({problems[0].str()})" if problems else ""
        raise CommandError(f"{bootstrap} did not let this client in within {LOGIN_WITHIN_S:.0f} s{reason}")


def split_address(address: str, option: str = "--bootstrap") -> tuple[str, int]:
    """Return host and port of HOST, HOST:PORT or [IPV6]:PORT.

    Raises:
        UsageProblem: the port is no number.
    """
    if address.endswith("]") or ":" not in address:
        return address.strip("[]"), KAFKA_PORT_DEFAULT
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageProblem(f"{option} {address}: write it as HOST:PORT")
    return host.strip("[]"), int(port)


@contextmanager
def plain_errors(bootstrap: str, subject: str = "") -> Iterator[None]:
    """Turn librdkafka's errors inside into one clear sentence.

    Args:
        bootstrap: named when the cluster does not answer.
        subject: what the work inside is about, put before the error.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        yield
    except KafkaException as exception:
        raise CommandError(describe_error(exception.args[0], bootstrap, subject)) from None


def describe_error(error: Any, bootstrap: str, subject: str = "") -> str:
    """Return a `confluent_kafka.KafkaError` in words."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    code = error.code()
    silent = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)  # noqa: SLF001 - public names
    reason = f"the cluster at {bootstrap} did not answer ({error.str()})" if code in silent else str(error.str())
    return f"{subject}: {reason}" if subject else reason
