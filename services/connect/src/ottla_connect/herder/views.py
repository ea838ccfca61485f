"""What a worker knows of all connectors: their settings and types, statuses, topics. It changes nothing. Pure."""

from collections.abc import Mapping, Sequence

from ottla_connect.connector_states import State, Status
from ottla_connect.herder.api import ConnectorInfo, ConnectorStatus, ConnectorType
from ottla_connect.herder.plugin_catalog import PluginCatalog
from ottla_connect.ids import TaskId
from ottla_connect.state.config_state import ConfigState
from ottla_connect.state.stores import Stores
from ottla_core.rest.errors import NotFound

CLASS_KEY = "connector.class"

NOT_STARTED = Status(state=State.UNASSIGNED, worker_id="")
"""The status of what no worker has said anything about yet."""


class Views:
    """Reads the stores of a worker."""

    def __init__(self, stores: Stores, catalog: PluginCatalog) -> None:
        self._stores = stores
        self._catalog = catalog

    @property
    def state(self) -> ConfigState:
        """The cluster's configuration."""
        return self._stores.config.state

    def config(self, name: str) -> Mapping[str, str]:
        """Return a connector's settings.

        Raises:
            NotFound: there is no such connector.
        """
        config = self.state.connectors.get(name)
        if config is None:
            raise NotFound(f"Connector {name} not found")
        return config

    def type_of(self, config: Mapping[str, str]) -> ConnectorType:
        """Return what a connector with these settings does."""
        return self._catalog.connector_type(config.get(CLASS_KEY, ""))

    def tasks(self, name: str) -> list[TaskId]:
        """Return a connector's tasks, in order."""
        return [TaskId(name, number) for number in range(self.state.task_counts.get(name, 0))]

    def info(self, name: str) -> ConnectorInfo:
        """Return how a connector is configured.

        Raises:
            NotFound: there is no such connector.
        """
        config = self.config(name)
        return ConnectorInfo(name=name, config=config, tasks=self.tasks(name), type=self.type_of(config))

    def status(self, name: str) -> ConnectorStatus:
        """Return a connector's status and its tasks'.

        Raises:
            NotFound: there is no such connector.
        """
        if name not in self.state.connectors:
            raise NotFound(f"No status found for connector {name}")
        return ConnectorStatus(
            name=name,
            connector=self._stores.status.connector_status(name) or NOT_STARTED,
            tasks={each.task: self._stores.status.task_status(each) or NOT_STARTED for each in self.tasks(name)},
            type=self.type_of(self.state.connectors[name]),
        )

    def task_status(self, task: TaskId) -> Status:
        """Return a task's status.

        Raises:
            NotFound: there is no such task.
        """
        if task not in self.tasks(task.connector):
            raise NotFound(f"No status found for task {task}")
        return self._stores.status.task_status(task) or NOT_STARTED

    def task_configs(self, name: str) -> Mapping[TaskId, Mapping[str, str]]:
        """Return the settings of a connector's tasks.

        Raises:
            NotFound: there is no such connector.
        """
        self.config(name)
        return self.state.task_configs(name)

    def topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector has used; none for one that is unknown, as in Kafka Connect."""
        return sorted(self._stores.status.topics(name))
