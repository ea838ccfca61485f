"""What every process of a connector or task has: its channel, providers, plugins, and how it reports a failure."""

import logging
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla_connect.config import WorkerConfig
from ottla_connect.processes.messages import Failed, Outlook
from ottla_connect.task.channel import Channel
from ottla_connect.task.confinement import confine
from ottla_connect.task.pipeline.error_handler import Unavailable
from ottla_connect.task.pipeline.errors import is_passing
from ottla_sdk import FatalError
from ottla_sdk.network_policy import forbid_internal_addresses
from ottla_sdk.runtime.config_providers import ConfigProviders
from ottla_sdk.runtime.plugin_lookup import PluginLookup
from ottla_sdk.runtime.plugin_name import KnownClass
from ottla_sdk.runtime.redaction import Redaction

TRACE_CHARACTERS_MAX = 100_000

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Process:
    """The parts of a process.

    Attributes:
        channel: to the worker.
        worker_settings: the worker's, with references to config providers resolved.
        worker: the same, understood.
        lookup: finds plugin classes.
        providers: resolves references.
        redaction: takes resolved values out of texts.
    """

    channel: Channel
    redaction: Redaction
    lookup: PluginLookup
    providers: ConfigProviders
    worker_settings: Mapping[str, str] = field(init=False)
    worker: WorkerConfig = field(init=False)

    @classmethod
    def make(
        cls,
        channel: Channel,
        redaction: Redaction,
        worker: Mapping[str, str],
        *,
        known: Sequence[KnownClass] = (),
    ) -> "Process":
        """Return the parts for a worker with these settings, and all plugin classes if it knows them.

        From then on the process is confined to what the worker lets connectors do.

        Raises:
            UnresolvedReference: they refer to what a config provider does not have.
            ConfigurationError: they are wrong.
        """
        lookup = PluginLookup(known=known)
        made = cls(channel, redaction, lookup, ConfigProviders(worker, lookup, redaction))
        made.worker_settings = made.providers.resolve_worker_settings()
        made.worker = WorkerConfig.parse({**worker, **made.worker_settings})
        lookup.policy = made.worker.class_policy
        forbid_internal_addresses(forbidden=not made.worker.connector_internal_addresses_allowed)
        confine(made.worker, {**worker, **made.worker_settings})
        return made


def failure(error: BaseException, redaction: Redaction) -> Failed:
    """Return what the worker is told of an error that ends the process."""
    reason = redaction.text(f"{type(error).__name__}: {error}")
    trace = redaction.text("".join(traceback.format_exception(error)))
    return Failed(
        reason=reason,
        # Java's traces begin with what was wrong, and tools show the beginning; Python's end with it.
        trace=f"{reason}\n\n{trace[-TRACE_CHARACTERS_MAX:]}",
        outlook=_outlook(error),
    )


def _outlook(error: BaseException) -> Outlook:
    if isinstance(error, FatalError):
        return Outlook.FATAL
    passes = isinstance(error, Unavailable) or (isinstance(error, Exception) and is_passing(error))
    return Outlook.PASSING if passes else Outlook.OPEN
