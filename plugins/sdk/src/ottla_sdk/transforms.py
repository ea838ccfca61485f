"""Single message transforms, and the predicates that say to which records they apply."""

from abc import abstractmethod
from typing import Generic

from ottla_sdk.plugin import ConfigT, Plugin
from ottla_sdk.records import ConnectRecord


class Transform(Plugin[ConfigT], Generic[ConfigT]):
    """Changes records one by one, before they go into a topic or into a sink."""

    @abstractmethod
    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the record as it shall be, the same object if nothing changes, or None to drop it.

        Raises:
            DataError: the record cannot be transformed; `errors.tolerance` decides what follows.
        """

    def close(self) -> None:
        """Give back what was opened."""


class Predicate(Plugin[ConfigT], Generic[ConfigT]):
    """Says whether a transform applies to a record."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return whether it does.

        Raises:
            DataError: this record cannot be judged.
        """

    def close(self) -> None:
        """Give back what was opened."""
