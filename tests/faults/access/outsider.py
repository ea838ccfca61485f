"""A client whose right is taken away and given back: it writes and reads all the time, and notes each answer.

It sends each record once, over a connection that it keeps as long as it can, as a decision that a broker remembers is
remembered for connections. Which broker leads it is told, since it may not ask while it has no right.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping

from tests.faults.access.client_access import ClientAccess
from tests.faults.access.outsider_checker import DONE, READ, REFUSED, WRITE, Attempt
from tests.support.clients.raw_client import RawClient, Silence
from tests.support.clients.raw_requests import fetch_request, fetched, produce_request, produced
from tests.support.messages.record_batches import batch_of

PAUSE_S = 0.02
ANSWER_WITHIN_S = 5.0
FETCH_BYTES = 4096
UNANSWERED = "unanswered"

Leaders = Callable[[], Mapping[int, int]]
"""Tells the id of each partition's leader; raises ConnectionError if nobody knows."""


class Outsider(threading.Thread):
    """The client, in a thread.

    Attributes:
        attempts: what it did.
        failure: what ended it, if it did not end by itself.
    """

    def __init__(
        self, access: ClientAccess, addresses: Mapping[int, str], topic: str, leaders: Leaders, *, seed: str
    ) -> None:
        super().__init__(name="outsider", daemon=True)
        self.attempts: list[Attempt] = []
        self.failure: str | None = None
        self._access = access
        self._addresses = addresses
        self._topic = topic
        self._ask_leaders = leaders
        self._chance = random.Random(seed)
        self._ending = threading.Event()
        self._leaders: Mapping[int, int] = {}
        self._connections: dict[int, RawClient] = {}

    def end(self) -> None:
        """Has it stop, and waits for that."""
        self._ending.set()
        self.join()

    def run(self) -> None:
        number = 0
        try:
            while not self._ending.wait(PAUSE_S):
                self._attempt(WRITE if number % 2 == 0 else READ, number)
                number += 1
        except Exception as error:
            self.failure = f"outsider: {error!r}"
            raise
        finally:
            for client in self._connections.values():
                client.close()

    def _attempt(self, what: str, number: int) -> None:
        try:
            self._leaders = self._leaders or self._ask_leaders()
        except ConnectionError:
            return
        partition, leader = self._chance.choice(sorted(self._leaders.items()))
        begun_s = time.monotonic()
        outcome = self._outcome(what, number, partition, leader)
        self.attempts.append(Attempt(what, number, begun_s, time.monotonic(), outcome))
        if outcome not in (DONE, REFUSED):
            self._leaders = {}

    def _outcome(self, what: str, number: int, partition: int, leader: int) -> str:
        if leader not in self._addresses:
            return UNANSWERED
        try:
            client = self._connections.get(leader)
            if client is None:
                client = self._access.connect(self._addresses[leader], within_s=ANSWER_WITHIN_S)
                self._connections[leader] = client
            if what == WRITE:
                batch = batch_of([str(number).encode()]).encode()
                answer = produced(client.ask(produce_request(self._topic, batch, partition=partition)))
            else:
                wanted = fetch_request(self._topic, 0, partition=partition, bytes_max=FETCH_BYTES, wait_max_ms=0)
                answer = fetched(client.ask(wanted))
        except (OSError, Silence):
            former = self._connections.pop(leader, None)
            if former is not None:
                former.close()
            return UNANSWERED
        return str(answer.error_code.name)
