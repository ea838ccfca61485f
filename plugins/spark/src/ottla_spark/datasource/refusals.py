"""Why brokers do not answer a question: nobody is there, or this client may not ask.

librdkafka lets the question time out either way. What it knows of its connections it tells to a callback.
"""

from confluent_kafka import KafkaError

from ottla_sdk import ConnectError
from ottla_spark.datasource.client_options import Settings
from ottla_spark.datasource.errors import ClusterUnreachable, ReadFailed, ReadRefused

UNREACHABLE = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001 - public
)
REFUSALS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - public
    }
)


class Connections:
    """What a client has told of its connections.

    Attributes:
        problem: the last that went wrong with one; empty if nothing has.
        is_refused: whether a broker did not let the client in.
    """

    def __init__(self) -> None:
        self.problem = ""
        self.is_refused = False

    def told_by(self, settings: Settings) -> dict[str, object]:
        """Return a client's settings with which it tells of its connections here, when it is polled."""
        return {**settings, "error_cb": self._disturbed}

    def _disturbed(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.problem:  # noqa: SLF001 - public
            self.problem = error.str()
        self.is_refused = self.is_refused or error.code() in REFUSALS


def failure(error: KafkaError, message: str, connections: Connections | None = None) -> ConnectError:
    """Return what to raise when a question has failed.

    Args:
        error: what the question was answered with.
        message: what was asked, and that it failed.
        connections: what the client has told of them, if it was asked to.
    """
    cause = (connections.problem if connections else "") or error.str()
    kind: type[ConnectError] = ReadFailed
    if error.code() in REFUSALS or (connections and connections.is_refused):
        kind = ReadRefused
    elif error.code() in UNREACHABLE:
        kind = ClusterUnreachable
    return kind(f"{message}: {cause}")
