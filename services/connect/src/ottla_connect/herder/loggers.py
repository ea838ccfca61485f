"""Log levels that are changed while the worker runs (`/admin/loggers`), here and in the processes of tasks.

Levels are Python's; Kafka's names TRACE, FATAL and OFF are understood as well.
"""

import logging
import time
from collections.abc import Callable, Mapping

from ottla_connect.herder.api import LoggerLevel
from ottla_core.rest.errors import NotFound

ROOT = "root"
LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "CRITICAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}


class Loggers:
    """The loggers whose level was set.

    Args:
        pass_on: tells the processes of connectors and tasks.
    """

    def __init__(self, pass_on: Callable[[str, str], None]) -> None:
        self._pass_on = pass_on
        self._set: dict[str, LoggerLevel] = {}

    def all(self) -> Mapping[str, LoggerLevel]:
        """Return the root logger and all those whose level was set."""
        root = LoggerLevel(level=logging.getLevelName(logging.getLogger().level), last_modified_ms=None)
        return {ROOT: root, **self._set}

    def find(self, name: str) -> LoggerLevel:
        """Return a logger's level, its own or the one that it inherits.

        Raises:
            NotFound: there is no such logger.
        """
        if (known := self.all().get(name)) is not None:
            return known
        if name not in logging.root.manager.loggerDict:
            raise NotFound(f"Logger {name} not found.")
        level = logging.getLevelName(logging.getLogger(name).getEffectiveLevel())
        return LoggerLevel(level=level, last_modified_ms=None)

    def set(self, name: str, level: str) -> list[str]:
        """Set a level here and in all processes; returns the loggers of this process that it affects."""
        wanted = self.check(level)
        logger = logging.getLogger(None if name == ROOT else name)
        logger.setLevel(LEVELS[wanted])
        self._set[name] = LoggerLevel(level=wanted, last_modified_ms=int(time.time() * 1000))
        self._pass_on(name, logging.getLevelName(min(LEVELS[wanted], logging.CRITICAL)))
        below = [each for each in logging.root.manager.loggerDict if name == ROOT or each.startswith(f"{name}.")]
        return sorted({name, *below})

    @staticmethod
    def check(level: str) -> str:
        """Return a level's name in capitals.

        Raises:
            NotFound: there is no such level (as in Kafka).
        """
        if level.upper() not in LEVELS:
            raise NotFound(f"invalid log level '{level}'.")
        return level.upper()
