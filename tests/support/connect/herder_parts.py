"""A worker without REST: a herder over real processes that follow a script, with stores in memory, a group of one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from ottla_connect.config import WorkerConfig
from ottla_connect.connector_states import State
from ottla_connect.group.sole_member import SoleMember
from ottla_connect.herder.api import ServerInfo
from ottla_connect.herder.herder import WorkerHerder
from ottla_connect.herder.plugin_catalog import PluginCatalog
from ottla_connect.herder.task_config_publisher import TaskConfigPublisher, TaskSettings
from ottla_connect.herder.validation import Validation
from ottla_connect.herder.worker import Worker
from ottla_connect.processes.host import ProcessHost
from ottla_connect.state.stores import open_standalone
from tests.support.connect.scripted_connectors import CLASS
from tests.support.eventually_async import eventually_async

URL = "http://127.0.0.1:8083"
SETTINGS = {
    "standalone": "true",
    "listeners": URL,
    "task.restart.attempts.max": "2",
    "task.restart.backoff.ms": "1",
}


class HerderParts:
    """A worker without REST."""

    def __init__(self, host: ProcessHost, directory: Path) -> None:
        config = WorkerConfig.parse(
            {**SETTINGS, "offset.storage.file.filename": str(directory / "offsets"), "bootstrap.servers": "none:1"}
        )
        self.stores = open_standalone(config)
        self.host = host
        self.sent: list[tuple[str, str, TaskSettings]] = []

        async def store(name: str, configs: TaskSettings, is_wanted: Callable[[], bool]) -> None:
            await self.herder.put_task_configs(name, configs, is_wanted)

        async def send(url: str, name: str, configs: TaskSettings) -> None:
            self.sent.append((url, name, configs))

        self.catalog = PluginCatalog(host, config.raw)
        publisher = TaskConfigPublisher(store=store, send=send)
        self.worker = Worker(URL, config, host=host, stores=self.stores, publisher=publisher)
        self.herder = WorkerHerder(
            config,
            worker=self.worker,
            stores=self.stores,
            catalog=self.catalog,
            validation=Validation(host, self.catalog, config.raw),
            logs=host.logs,
            server=ServerInfo(version="1", commit="c", kafka_cluster_id="k"),
        )
        self.member = SoleMember(
            url=URL,
            view=self.herder.group_view,
            on_assigned=self.herder.on_assigned,
            on_lease=self.worker.extend_lease,
        )

    async def start(self) -> Self:
        await self.stores.start(self.herder.on_config_change)
        self.herder.join(self.member)
        await self.catalog.refresh()
        await self.member.start()
        await eventually_async(lambda: self.member.assignment, "the worker has an assignment")
        return self

    async def close(self) -> None:
        await self.herder.close()
        await self.member.close()
        await self.stores.close()

    async def create(self, name: str, **settings: str) -> None:
        config = {"connector.class": CLASS, **{key.replace("_", "."): value for key, value in settings.items()}}
        await self.herder.create_connector(name, config, None)

    def states(self, name: str) -> list[State]:
        status = self.herder.connector_status(name)
        return [status.connector.state, *(task.state for task in status.tasks.values())]

    async def reach(self, name: str, *states: State) -> None:
        await eventually_async(lambda: self.states(name) == list(states), f"{name} is {', '.join(states)}")

    def pids(self) -> Mapping[object, int]:
        return {unit.id: unit.pid for unit in self.worker.units() if unit.pid is not None}
