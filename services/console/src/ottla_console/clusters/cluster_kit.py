"""One user's connections to one cluster: the user's credentials make them, so the cluster's ACLs are the rights.

Blocking clients are used in threads only (`ask`). A `ClusterAdmin` is one conversation, so each question takes one
that is free, or opens one; librdkafka's admin client is shared. Questions about groups have one to themselves, since
it is closed if a coordinator was silent (`ottla_operations.groups.coordinator_answers`).
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import structlog
from confluent_kafka.admin import AdminClient

from ottla_console.clusters.bounded_threads import BoundedThreads
from ottla_console.clusters.connect_workers import ConnectWorkers
from ottla_console.clusters.credentials import Login
from ottla_console.config.cluster_settings import ClusterSettings
from ottla_operations.cluster.cluster_admin import ClusterAdmin
from ottla_operations.groups.coordinator_answers import is_waiting
from ottla_operations.kafka_access import checked_admin_client
from ottla_operations.records.field_codec import FieldFormat
from ottla_operations.schemas.registry import Registry
from ottla_operations.schemas.schema_codec import SchemaCodec
from ottla_sdk.kafka.coordinator_requests import close

ANSWER_TIMEOUT_S: Final = 10.0
"""How long a page waits for a cluster."""
IDLE_ADMINS_MAX: Final = 4
IDLE_GROUP_CLIENTS_MAX: Final = 2
QUIET_LOGGER: Final = "ottla.console.librdkafka"
Result = TypeVar("Result")

log = structlog.get_logger("clusters")


class ClusterKit:
    """How one user reaches one cluster.

    Args:
        settings: of the cluster.
        credentials: the user's; None for those in the settings.
        threads: where questions are asked.

    Attributes:
        user: who it is; empty where the settings' credentials are used.
        config: librdkafka's settings.
        is_closed: whether nobody uses it any more.
        connect: the Connect workers.
    """

    def __init__(self, settings: ClusterSettings, credentials: Login | None, threads: BoundedThreads) -> None:
        self.settings = settings
        self.user = "" if credentials is None else credentials.user
        client = settings.client if credentials is None else credentials.in_settings(settings.client)
        self.config: Mapping[str, Any] = {
            "client.id": "ottla-console",
            **client,
            "bootstrap.servers": settings.bootstrap,
            "logger": _quiet_logger(),
        }
        self.connect = ConnectWorkers(settings)
        self._threads = threads
        self._lock = threading.Lock()
        self._admin_client: AdminClient | None = None
        self._idle_admins: list[ClusterAdmin] = []
        self._idle_group_clients: list[AdminClient] = []
        self.is_closed = False
        self._registry: Registry | None = None

    async def ask(self, question: Callable[["ClusterKit"], Result], *, within_s: float = ANSWER_TIMEOUT_S) -> Result:
        """Return the answer to a question that blocks, asked in a thread.

        Raises:
            OperationError: the cluster does not answer in time, or refuses.
        """
        subject = f"cluster {self.settings.name}"
        return await self._threads.run(lambda: question(self), within_s=within_s, subject=subject)

    def admin_client(self) -> AdminClient:
        """Return librdkafka's admin client, for what does not ask coordinators of groups; in a thread.

        Raises:
            OperationError: nobody answers, or lets this user in.
        """
        with self._lock:
            if self._admin_client is None:
                self._admin_client = checked_admin_client(self.config)
            return self._admin_client

    @contextmanager
    def group_client(self) -> Iterator[AdminClient]:
        """Lend an admin client that asks coordinators of groups; in a thread.

        Raises:
            OperationError: nobody answers, or lets this user in.
        """
        with self._lock:
            client = self._idle_group_clients.pop() if self._idle_group_clients else None
        if client is None:
            client = checked_admin_client(self.config)
        try:
            yield client
        finally:
            with self._lock:
                is_room = not self.is_closed and len(self._idle_group_clients) < IDLE_GROUP_CLIENTS_MAX
                is_kept = is_room and not is_waiting(client)
                if is_kept:
                    self._idle_group_clients.append(client)
            if not is_kept:
                close(client)

    def registry(self) -> Registry | None:
        """Return the schema registry; None where none is configured; in a thread.

        Raises:
            OperationError: its settings cannot be used.
        """
        if self.settings.schema_registry_url is None:
            return None
        with self._lock:
            if self._registry is None:
                self._registry = Registry(self.settings.schema_registry_url, self.settings.registry)
            return self._registry

    def schema_codec(self) -> SchemaCodec | None:
        """Return what decodes keys and values with a schema; None without a registry; for one thread."""
        registry = self.registry()
        return None if registry is None else SchemaCodec(registry, FieldFormat.SCHEMA)

    @contextmanager
    def cluster_admin(self) -> Iterator[ClusterAdmin]:
        """Lend what asks over Kafka's protocol; in a thread.

        Raises:
            OperationError: a setting cannot be used.
        """
        with self._lock:
            admin = self._idle_admins.pop() if self._idle_admins else None
        if admin is None:
            admin = ClusterAdmin(self.settings.bootstrap, self.config, answer_timeout_s=ANSWER_TIMEOUT_S)
        try:
            yield admin
        except BaseException:
            admin.__exit__()
            raise
        with self._lock:
            is_kept = not self.is_closed and len(self._idle_admins) < IDLE_ADMINS_MAX
            if is_kept:
                self._idle_admins.append(admin)
        if not is_kept:
            admin.__exit__()

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back."""
        with self._lock:
            self.is_closed = True
            idle, self._idle_admins = self._idle_admins, []
            self._admin_client = None
            self._idle_group_clients.clear()
        for admin in idle:
            admin.__exit__()
        self.connect.close()


def _quiet_logger() -> Any:
    """Return a logger that keeps librdkafka's lines from standard error, where they would be no JSON."""
    import logging  # noqa: PLC0415 - librdkafka wants one of these

    quiet = logging.getLogger(QUIET_LOGGER)
    # Or it would have one more for each user who comes.
    if not any(isinstance(each, logging.NullHandler) for each in quiet.handlers):
        quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    return quiet
