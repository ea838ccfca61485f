"""The Connect workers of a cluster. They know the console, by `rest.config`, and not its users.

A `ConnectClient` is one conversation, so each question takes one that is free, or opens one.
"""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from ottla_console.config.cluster_settings import ClusterSettings
from ottla_operations.errors import OperationError
from ottla_operations.workers.connect_client import ConnectClient
from ottla_operations.workers.worker_client import Refused

IDLE_CLIENTS_MAX: Final = 4
ANSWER_TIMEOUT_S: Final = 30.0
"""How long a worker may take for one answer: to validate settings it starts a process."""
CHANGED_WITHIN_S: Final = 55.0
"""How long a page waits for a change: one that is refused while workers rebalance is tried again for 20 s."""
Result = TypeVar("Result")


class NoWorkers(OperationError):
    """No Connect workers are known."""


class ConnectWorkers:
    """Lends clients.

    Args:
        settings: of the cluster.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: list[ConnectClient] = []
        self._is_closed = False

    def ask(self, question: Callable[[ConnectClient], Result]) -> Result:
        """Return the answer to a question, in a thread.

        Raises:
            NoWorkers: the cluster's settings name none.
            Refused: a worker does not carry it out.
            OperationError: none can be reached.
        """
        client = self._lent()
        try:
            result = question(client)
        except Refused:
            self._take_back(client)
            raise
        except BaseException:
            client.close()  # it keeps to the worker that answered last, which may be gone
            raise
        self._take_back(client)
        return result

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _lent(self) -> ConnectClient:
        if self._settings.connect_url is None:
            raise NoWorkers(
                f"the console knows no Connect workers of {self._settings.name}: set "
                f"cluster.{self._settings.name}.connect.url"
            )
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return one_client(self._settings, self._settings.connect_url)

    def _take_back(self, client: ConnectClient) -> None:
        with self._lock:
            is_kept = not self._is_closed and len(self._idle) < IDLE_CLIENTS_MAX
            if is_kept:
                self._idle.append(client)
        if not is_kept:
            client.close()


def one_client(settings: ClusterSettings, url: str) -> ConnectClient:
    """Return a client of the workers at a URL.

    Raises:
        UsageProblem: it is none.
    """
    return ConnectClient(url, settings.rest_config, answer_timeout_s=ANSWER_TIMEOUT_S)
