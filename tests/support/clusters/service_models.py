"""The model of each service's settings, by the role under which `ottla up --set` knows it."""

from collections.abc import Mapping
from typing import Final

from ottla_broker.config import BrokerConfig
from ottla_connect.config import WorkerConfig
from ottla_console.config.console_config import ConsoleConfig
from ottla_controller.config import ControllerConfig
from ottla_core.config import ServiceConfig
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_mirror.config.worker_settings import WorkerSettings

SERVICE_MODELS: Final[Mapping[str, type[ServiceConfig]]] = {
    "broker": BrokerConfig,
    "controller": ControllerConfig,
    "group-coordinator": GroupCoordinatorConfig,
    "connect": WorkerConfig,
    "mirror": WorkerSettings,
    "console": ConsoleConfig,
}
