"""How operations reach a cluster with librdkafka: its errors in plain words, and no waiting for what is not there.

librdkafka itself keeps trying for minutes and logs to standard error. Here a broker has to answer at a bootstrap
address first, and to let the client in (`broker_probe.py` of the SDK); then librdkafka's errors become
`OperationError`s. Configurations are librdkafka's, with translated names.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ottla_operations.errors import OperationError, UsageProblem
from ottla_operations.interruptible import interruptible

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient, TopicMetadata

    from ottla_core.client.security import ClientSecurity

KAFKA_PORT_DEFAULT = 9092
CLIENT_ID = "ottla"
REQUEST_TIMEOUT_S = 30.0
LOGIN_WITHIN_S = 4.0
LOGIN_POLL_S = 0.1
PLAINTEXT = "plaintext"
OWN_SETTINGS = frozenset({"bootstrap.servers", "client.id", "logger"})
"""What is set for every client."""


TOKEN_CALLBACK = "oauth_cb"  # noqa: S105 - a setting's name
"""confluent-kafka's setting: a function that returns a bearer token and when it expires, in seconds since 1970."""


class LoginRefused(OperationError):
    """A cluster does not let a client in."""


def checked_admin_client(config: Mapping[str, Any]) -> "AdminClient":
    """Return a connected admin client.

    Raises:
        LoginRefused: nobody lets this client in.
        OperationError: nobody answers at the bootstrap addresses.
    """
    bootstrap = str(config["bootstrap.servers"])
    check_reachable(bootstrap, config)
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - takes a tenth of a second

    with plain_errors(bootstrap):
        return AdminClient(dict(config))


def client_security(config: Mapping[str, Any]) -> "ClientSecurity":
    """Return how connections of our own are secured, as the settings of a client of librdkafka say.

    Raises:
        OperationError: one of them cannot be used.
    """
    from ottla_core.client.security import ClientSecurity, GivenTokens  # noqa: PLC0415 - help has no use for it
    from ottla_core.errors import ConfigurationError  # noqa: PLC0415

    callback = config.get(TOKEN_CALLBACK)
    given = None if callback is None else GivenTokens("", lambda: str(callback("")[0]))
    try:
        return ClientSecurity.of({key: value for key, value in config.items() if isinstance(value, str)}, given)
    except ConfigurationError as error:
        raise OperationError(str(error)) from None


def check_settings(config: Mapping[str, Any]) -> None:
    """Have librdkafka say whether it knows a command's settings, where other connections than its own use them.

    Raises:
        OperationError: it does not know a name, or cannot make use of a value.
    """
    if config.keys() <= OWN_SETTINGS:
        return
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    with plain_errors(str(config["bootstrap.servers"])):
        AdminClient(
            {name: value for name, value in config.items() if name != "bootstrap.servers"}
        )  # connects nowhere


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
        OperationError: none does, within `broker_probe.PROBE_WITHIN_S`.
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
        raise OperationError(
            f"cannot reach {told}; name a broker with {address_option}, and a Connect worker with --connect-url"
        )
    raise OperationError(
        f"cannot reach {told}; start a local cluster with `ottla up`, or name another with {address_option}"
    )


def _check_login(config: Mapping[str, Any], bootstrap: str) -> None:
    """Have librdkafka log in once, since it tells of what is wrong only in passing and tries again for ever.

    Raises:
        LoginRefused: certificates or credentials are refused, or nobody lets it in within `LOGIN_WITHIN_S`.
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
        client.poll(LOGIN_POLL_S)
        if refused := [each for each in problems if each.code() in final]:
            raise LoginRefused(f"{bootstrap} lets this client not in: {refused[0].str()}")
    if not described.done() or described.exception() is not None:
        reason = f" ({problems[0].str()})" if problems else ""
        raise LoginRefused(f"{bootstrap} did not let this client in within {LOGIN_WITHIN_S:.0f} s{reason}")


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
        raise OperationError(describe_error(exception.args[0], bootstrap, subject)) from None


def describe_error(error: Any, bootstrap: str, subject: str = "") -> str:
    """Return a `confluent_kafka.KafkaError` in words."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    code = error.code()
    silent = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)  # noqa: SLF001 - public names
    reason = f"the cluster at {bootstrap} did not answer ({error.str()})" if code in silent else str(error.str())
    return f"{subject}: {reason}" if subject else reason
