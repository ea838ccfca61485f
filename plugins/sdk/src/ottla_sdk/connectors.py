"""Connectors and their tasks.

A connector decides how its work is divided and watches for changes; tasks do the work, each in a process of its own.
The runtime calls a connector's or a task's methods from one thread, in this order:

    connector:   configure, start, task_configs (again whenever asked for), stop
    source task: configure, start, { poll, committed }, stop
    sink task:   configure, start, { open, { put, pre_commit }, close }, stop
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic

from ottla_sdk.context import (
    ChangePermit,
    ConnectorContext,
    SinkTaskContext,
    SourceConnectorContext,
    SourceTaskContext,
)
from ottla_sdk.errors import Problem
from ottla_sdk.plugin import ConfigT, Plugin
from ottla_sdk.records import SinkRecord, SourceRecord, TopicPartition


class SourceTask(Plugin[ConfigT], Generic[ConfigT]):
    """Reads from a system outside.

    Attributes:
        context: offsets, metrics, the logger; there from `start` on.
    """

    context: SourceTaskContext

    def start(self) -> None:
        """Connect, and go to where `context.offsets` says."""

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord]:
        """Return the next records, in the order of their source offsets; wait about a second for some, not longer.

        Raises:
            RetriableError: ask again later; the task must be where it was.
        """

    def committed(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Learn that the cluster has all records up to these (source partition, source offset) pairs, for good.

        For systems that want acknowledgements or keep data until then.
        """

    def stop(self) -> None:
        """Disconnect. Is called also when `start` or `poll` has failed."""


class SinkTask(Plugin[ConfigT], Generic[ConfigT]):
    """Writes to a system outside.

    Attributes:
        context: assignment, seeking, pausing, reports of bad records; there from `start` on.
    """

    context: SinkTaskContext

    def start(self) -> None:
        """Connect."""

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Learn that records of these partitions will come; a sink that keeps offsets calls `context.seek` here."""

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records: write them, or keep them until `pre_commit`. May be called without records.

        Raises:
            RetriableError: the same records come again after a pause.
        """

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Make what was put safe in the target, and return the offsets that may be committed.

        Args:
            offsets: behind the last record that was put, by partition.

        Returns:
            By default the same offsets, after `flush`. A sink that keeps offsets in its target returns nothing.
        """
        self.flush()
        return offsets

    def flush(self) -> None:
        """Make all that was put safe in the target."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Learn that no further records of these partitions will come; `pre_commit` was called before."""

    def stop(self) -> None:
        """Disconnect. Is called also when another method has failed."""


class Connector(Plugin[ConfigT], Generic[ConfigT]):
    """Divides the work of a connector among tasks.

    Attributes:
        task_class: the class of its tasks; a `JobTask` fits either kind of connector.
        context: asks for new task configurations, reports failures; there from `start` on.
    """

    task_class: ClassVar[type[Any]]

    context: ConnectorContext

    def check(self) -> Iterable[Problem]:
        """Return what is wrong with the configuration in view of the world, such as a server that refuses a password.

        `config` is valid by itself. Takes at most a few seconds.
        """
        return ()

    def start(self) -> None:
        """Start watching what `task_configs` depends on, if that can change."""

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the settings of each task, at most `tasks_max` of them; none if there is nothing to do now.

        By default one task with the connector's own settings.
        """
        return [dict(self.settings)] if tasks_max else []

    def stop(self) -> None:
        """Stop watching. Is called also when another method has failed."""


class SourceConnector(Connector[ConfigT], Generic[ConfigT]):
    """Brings data of a system outside into topics."""

    context: SourceConnectorContext

    def check_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[Problem]:
        """Return what is wrong with offsets that a user wants to set; None removes a partition's offset.

        Connectors that do not override it take whatever is set.
        """
        return ()

    def exactly_once_support(self) -> bool | None:
        """Return whether every record gets into its topic exactly once on workers that have transactions.

        `config` is set, and the answer may depend on it; the connector is not started. True for tasks whose records
        each have an offset behind which the task goes on with the next one, whenever it is asked. By default None:
        nothing is known. `exactly.once.support=required` accepts only True (KIP-618).
        """
        return None

    def can_define_transaction_boundaries(self) -> bool:
        """Return whether its tasks end transactions by `context.transaction_context` with this configuration."""
        return False


class SinkConnector(Connector[ConfigT], Generic[ConfigT]):
    """Brings data of topics into a system outside.

    Attributes:
        permit: says in `change_offsets` whether they may still be changed.
    """

    permit: ChangePermit = ChangePermit()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return the settings of each task: by default `tasks_max` times the connector's own."""
        return [dict(self.settings) for _ in range(tasks_max)]

    def check_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> Iterable[Problem]:
        """Return what is wrong with offsets that a user wants to set; None removes a partition's offset.

        Changes nothing, as it may be asked several times, and the answer may be no. A connector whose target says how
        far its data goes, and that cannot change that, says so here.
        """
        return ()

    def kept_offsets(self) -> Mapping[TopicPartition, int]:
        """Return the offsets that are kept in the target, so that a reset covers them all; none by default."""
        return {}

    def change_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Change the offsets that are kept in the target, as `check_offsets` has consented to; None removes one.

        No task runs meanwhile. It happens before the consumer group's offsets are changed, and may be repeated.

        Call `permit.require()` immediately before each write. If the worker is cut off or paused, another one leads
        after a while, whose change must not be undone by this one. The process is ended when its lease ends, but what
        is on its way to the target then, or was paused between the question and the write, may still arrive. A target
        with transactions excludes that: write everything, which locks it, then call `permit.require()`, then commit.

        Raises:
            NotPermitted: by `permit.require`; nothing may be committed after it.
            Exception: they are not changed; the group's stay as they are, too.
        """
