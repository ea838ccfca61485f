"""A raw transactional client of a whole cluster: it asks partitions' leaders where it has to, or else any broker.

Each request is sent once, over a connection that is closed when no answer came. That is an error (`Unanswered`), as
only the caller knows whether the request may be sent again.
"""

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from kio.schema.errors import ErrorCode

from tests.support.clients.raw_client import Connect, RawClient, Silence
from tests.support.clients.raw_requests import metadata_request
from tests.support.clients.transaction_client import TransactionClient

ANSWER_WITHIN_S = 4.0
Answer = TypeVar("Answer")


class Unanswered(Exception):
    """A request may have been carried out, or not."""


class RoutedTransactions:
    """Connections to all brokers of a cluster."""

    def __init__(self, bootstrap: str, chance: random.Random, connect: Connect = RawClient.to) -> None:
        self._connect = connect
        self._addresses = bootstrap.split(",")
        self._chance = chance
        self._clients: dict[str, TransactionClient] = {}
        self._leaders: dict[tuple[str, int], str] = {}

    def close(self) -> None:
        """Closes every connection."""
        for address in list(self._clients):
            self._drop(address)

    def any(self, ask: Callable[[TransactionClient], Answer]) -> Answer:
        """Asks a broker, whichever.

        Raises:
            Unanswered: there was no answer.
        """
        return self._ask(self._chance.choice([*self._clients] or self._addresses), ask)

    def leader(self, topic: str, partition: int, ask: Callable[[TransactionClient], Answer]) -> Answer:
        """Asks the leader of a partition, as far as is known.

        Raises:
            Unanswered: there was no answer.
        """
        address = self._leaders.get((topic, partition))
        if address is None:
            self._leaders |= self.any(lambda client: _leaders(client, [topic]))
            address = self._leaders.get((topic, partition))
        if address is None:
            raise Unanswered(f"nobody leads {topic}-{partition}")
        return self._ask(address, ask)

    def forget(self, topic: str, partition: int) -> None:
        """Has the leader of a partition looked up again."""
        self._leaders.pop((topic, partition), None)

    def _ask(self, address: str, ask: Callable[[TransactionClient], Answer]) -> Answer:
        try:
            client = self._clients.get(address)
            if client is None:
                client = TransactionClient(address, answer_within_s=ANSWER_WITHIN_S, connect=self._connect)
                self._clients[address] = client
            return ask(client)
        except (OSError, Silence) as error:
            self._drop(address)
            raise Unanswered(f"{address}: {error!r}") from error

    def _drop(self, address: str) -> None:
        client = self._clients.pop(address, None)
        if client is not None:
            client.raw.close()
        self._leaders = {place: each for place, each in self._leaders.items() if each != address}


def _leaders(client: TransactionClient, topics: Sequence[str]) -> dict[tuple[str, int], str]:
    """The addresses of partitions' leaders."""
    answer = client.raw.ask(metadata_request(list(topics)))
    addresses = {each.node_id: f"{each.host}:{each.port}" for each in answer.brokers}
    return {
        (topic.name, part.partition_index): addresses[part.leader_id]
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code == ErrorCode.none and part.leader_id in addresses
    }
