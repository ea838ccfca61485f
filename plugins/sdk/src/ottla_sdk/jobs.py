"""Tasks that move their data by themselves, such as a query on Spark: the runtime starts, watches and stops them.

Any source or sink connector may have one as its `task_class`. The runtime makes no producer and no consumer for it,
so converters, transforms, `errors.*` and offsets do not apply. It calls its methods from one thread, in this order:

    configure, start, { watch }, stop

Pausing is stopping; to resume, the runtime makes a new instance and starts that.
"""

from abc import abstractmethod
from typing import Generic

from ottla_sdk.context import JobTaskContext
from ottla_sdk.plugin import ConfigT, Plugin


class JobTask(Plugin[ConfigT], Generic[ConfigT]):
    """Runs work that reads and writes topics by itself.

    A task whose worker is cut off from its group, so that another worker may have the task, is ended at once with
    all processes that it has started. What the work leaves behind must stand that, as it must stand any crash.

    Attributes:
        context: settings of clients, topics, progress; there from `start` on.
    """

    context: JobTaskContext

    @abstractmethod
    def start(self) -> None:
        """Begin the work where it was left; what takes long looks at `context.should_stop()` now and then."""

    @abstractmethod
    def watch(self) -> None:
        """Wait about a second, and raise what the work has failed with, if it has.

        Raises:
            FatalError: the task stays failed until somebody restarts it or changes its configuration.
            RetriableError: something is away or busy; the task is started anew, with growing pauses, until it works.
        """

    def stop(self) -> None:
        """End the work, and every process that was started for it. Is called also when another method has failed."""
