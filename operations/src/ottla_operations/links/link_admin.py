"""Asking a cluster of Ottla about its links and having them changed, over the Kafka listener of any broker.

Every question may be sent twice: what is created carries its id, and the rest has the same outcome twice. So one that
got no answer is sent to the next broker.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla_core.client.blocking_connection import BlockingConnection
from ottla_core.client.errors import AuthenticationFailed, Unreachable, UnsupportedByBroker
from ottla_core.client.links import Question, ask_links_blocking
from ottla_core.errors import KafkaError
from ottla_operations.errors import OperationError
from ottla_operations.kafka_access import CLIENT_ID, check_reachable, client_security, split_address

Answer = TypeVar("Answer")


class LinkAdmin:
    """The cluster that follows.

    Args:
        bootstrap: addresses of its brokers.
        config: settings of a client, under librdkafka's names.

    Raises:
        OperationError: if a setting cannot be used; from every method, if nobody answers or it is refused.
    """

    def __init__(self, bootstrap: str, config: Mapping[str, Any]) -> None:
        check_reachable(bootstrap, config)
        self._bootstrap = bootstrap
        self._security = client_security(config)

    def ask(self, question: Question[Answer]) -> Answer:
        """Return the answer to a question."""
        return self._of_any(lambda connection: ask_links_blocking(connection, question))

    def _of_any(self, ask: Callable[[BlockingConnection], Answer]) -> Answer:
        problems = []
        for address in self._bootstrap.split(","):
            host, port = split_address(address.strip())
            try:
                with BlockingConnection(host, port, security=self._security, client_id=CLIENT_ID) as connection:
                    return ask(connection)
            except Unreachable as error:
                problems.append(str(error))
            except (AuthenticationFailed, UnsupportedByBroker) as error:
                raise OperationError(str(error)) from None
            except KafkaError as error:
                raise OperationError(error.message) from None
        raise OperationError(f"no answer about links; only clusters of Ottla have them: {', '.join(problems)}")
