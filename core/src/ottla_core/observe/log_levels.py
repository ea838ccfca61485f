"""The levels of a process's loggers, which can change while it runs (KIP-412).

A logger without a level of its own goes by its parent's, the name before the last dot, and in the end by `ROOT`. The
names of levels are Kafka's, so FATAL and TRACE are known as well; here they say what ERROR and DEBUG say.
"""

from collections.abc import Mapping
from typing import Final

ROOT: Final = "root"
LEVEL_NUMBERS: Final[Mapping[str, int]] = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}


class LogLevels:
    """Levels by logger; `own` holds those that somebody has set, by their names."""

    def __init__(self) -> None:
        self.own: dict[str, str] = {}
        self._started_with = "INFO"
        self._numbers: dict[str, int] = {}

    def begin(self, level: str) -> None:
        """Forget what was set; every logger has this level, one of `LEVEL_NUMBERS`."""
        self.own = {}
        self._started_with = level
        self._numbers = {}

    def set(self, logger: str, level: str | None) -> None:
        """Give a logger a level, or with None let it go by its parent's again."""
        if level is None:
            self.own.pop(logger, None)
        else:
            assert level in LEVEL_NUMBERS
            self.own[logger] = level
        self._numbers = {}

    def level_of(self, logger: str) -> str:
        """Return the level that a logger goes by."""
        while logger not in self.own and "." in logger:
            logger = logger.rpartition(".")[0]
        return self.own.get(logger) or self.own.get(ROOT) or self._started_with

    def shows(self, logger: str, number: int) -> bool:
        """Return whether a logger shows events of this severity."""
        least = self._numbers.get(logger)
        if least is None:
            least = self._numbers[logger] = LEVEL_NUMBERS[self.level_of(logger)]
        return number >= least


LEVELS: Final = LogLevels()
"""Those of this process; `configure_logs` begins with them."""
