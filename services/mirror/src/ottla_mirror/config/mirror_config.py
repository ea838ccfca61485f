"""The configuration of a worker: clusters and flows, read from a `mm2.properties`, the environment and `--set`.

Everything is checked before anything starts, and all that is wrong is told at once. References to secrets
(`${file:/path:key}`) are resolved here; what is shown later is what was written.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ottla_core.config import argument_parser, checked, written_settings
from ottla_core.errors import ConfigurationError
from ottla_mirror.config.clients import ClusterClients, cluster_clients
from ottla_mirror.config.configured_settings import (
    ARROW,
    ConfiguredFlow,
    ConfiguredSettings,
    flow_written,
    sorted_out,
    unknown,
)
from ottla_mirror.config.flow_settings import FlowSettings
from ottla_mirror.config.plugins import FlowPlugins, MirrorPlugins
from ottla_mirror.config.worker_settings import WorkerSettings
from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.runtime.java_properties import parse_properties
from ottla_sdk.runtime.redaction import HIDDEN, Redaction
from ottla_sdk.runtime.references import has_reference

PROGRAM = "ottla-mirror"
TIMEOUT_PER_INTERVAL_MIN = 3
"""So many times as long as transactions last may they last before the target aborts them."""
ALIAS = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """One flow, ready to run.

    Attributes:
        name: ``SOURCE->TARGET``.
        source: alias of the cluster that is followed.
        target: alias of the cluster that follows.
        origin: where it was written.
        settings: its settings.
        plugins: what decides which topics and groups, and names.
        source_clients: how the source is reached.
        target_clients: how the target is reached.
        written: its own settings, as they were written.
        source_written: client settings of a source that came with the flow, as they were written.
    """

    name: str
    source: str
    target: str
    origin: Literal["configuration", "created"]
    settings: FlowSettings
    plugins: FlowPlugins = field(repr=False)
    source_clients: ClusterClients
    target_clients: ClusterClients
    written: Mapping[str, str]
    source_written: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """The whole configuration.

    Attributes:
        worker: settings of the process.
        clusters: how each cluster is reached, by alias.
        flows: the enabled flows, by name.
        notes: settings without effect, with the reason.
        reader: makes flows that are created later.
    """

    worker: WorkerSettings
    clusters: Mapping[str, ClusterClients]
    flows: Mapping[str, FlowConfig]
    notes: Sequence[str]
    reader: "FlowReader"

    @property
    def targets(self) -> tuple[str, ...]:
        """The clusters at which the worker joins a group: targets of flows; without flows, all clusters."""
        named = {flow.target for flow in self.flows.values()}
        return tuple(alias for alias in self.clusters if alias in named or not named)

    @classmethod
    def load(
        cls, arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
    ) -> "MirrorConfig":
        """Return the configuration of a command line: ``--config FILE`` and ``--set``.

        Raises:
            ConfigurationError: lists everything that is wrong.
        """
        parser = argument_parser(WorkerSettings, PROGRAM)
        parser.description = "Mirrors topics and groups from one Kafka cluster to another."
        options = parser.parse_args(arguments)
        path: Path | None = options.config
        options.config = None
        values = {} if path is None else _read(path)
        origins = dict.fromkeys(values, str(path))
        written = written_settings(WorkerSettings, options, environment)
        return cls.parse({**values, **written.values}, {**origins, **written.origins}, written.hidden)

    @classmethod
    def parse(
        cls,
        values: Mapping[str, str],
        origins: Mapping[str, str] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> "MirrorConfig":
        """Return the configuration that settings say.

        Args:
            values: the settings by key.
            origins: where they were found, by key.
            hidden: keys whose values no message has.

        Raises:
            ConfigurationError: lists everything that is wrong.
        """
        aliases = [each.strip() for each in values.get("clusters", "").split(",") if each.strip()]
        plugins, redaction = MirrorPlugins(), Redaction()
        providers = plugins.providers(values, redaction)
        problems = [
            f"{key}: {problem}"
            for key, value in values.items()
            if has_reference(value)
            and not key.startswith("config.providers")
            and (problem := providers.problem(value))
        ]
        problems += [
            f"clusters: an alias has letters, digits, dots, dashes and underscores, not {alias!r}"
            for alias in aliases
            if ALIAS.fullmatch(alias) is None
        ]
        resolved = dict(values) if problems else providers.resolve(values)
        written = sorted_out(resolved, aliases)
        worker, wrong = checked(WorkerSettings, written.worker, origins or {}, hidden)
        problems += wrong + written.problems
        clusters: dict[str, ClusterClients] = {}
        for alias in aliases:
            clients, wrong = cluster_clients([written.clients, written.clusters[alias]], f"{alias}.")
            problems += wrong
            if clients is not None:
                clusters[alias] = clients
        reader = FlowReader(written, values, plugins, clusters)
        flows = {}
        for source in aliases:
            for target in aliases:
                pair = written.pairs.get((source, target))
                if source == target or (pair is None and "enabled" not in written.flows):
                    continue
                flow, wrong = reader.configured(source, target)
                problems += [each for each in wrong if each not in problems]
                if flow is not None and flow.settings.enabled:
                    flows[flow.name] = flow
        problems += [each for each in reader.unclaimed() if each not in problems]
        if problems or worker is None:
            raise ConfigurationError("bad configuration:\n  " + "\n  ".join(dict.fromkeys(problems)))
        return cls(worker=worker, clusters=clusters, flows=flows, notes=tuple(written.notes), reader=reader)


class FlowReader:
    """Makes flows out of settings: those of the configuration, and those that are created later."""

    def __init__(
        self,
        written: ConfiguredSettings,
        values: Mapping[str, str],
        plugins: MirrorPlugins,
        clusters: Mapping[str, ClusterClients],
    ) -> None:
        self._written = written
        self._values = values
        self._plugins = plugins
        self._clusters = clusters
        self._plugin_keys: frozenset[str] = frozenset()

    def configured(self, source: str, target: str) -> tuple[FlowConfig | None, list[str]]:
        """Return a flow of the configuration, or what is wrong with it."""
        name = f"{source}{ARROW}{target}"
        own = self._written.pairs.get((source, target), ConfiguredFlow())
        shown = {
            key.removeprefix(f"{name}."): value for key, value in self._values.items() if key.startswith(f"{name}.")
        }
        return self._flow(source, target, own, shown=shown, source_shown={}, origin="configuration")

    def created(
        self, source: str, target: str, settings: Mapping[str, str], source_settings: Mapping[str, str]
    ) -> FlowConfig:
        """Return a flow that somebody creates.

        Args:
            source: alias of the source.
            target: alias of the target, which the configuration has.
            settings: of the flow, without a prefix.
            source_settings: of the source's clients, without a prefix; empty for a source of the configuration.

        Raises:
            ConfigurationError: lists everything that is wrong.
        """
        name = f"{source}{ARROW}{target}"
        problems = []
        if target not in self._clusters:
            known = ", ".join(self._clusters) or "none"
            problems.append(f"target: the workers know no cluster {target!r}; they know {known}")
        if source == target:
            problems.append("source: a cluster is not mirrored to itself")
        if source not in self._clusters and not source_settings:
            problems.append(f"source: the workers know no cluster {source!r}; give its settings along")
        if source in self._clusters and source_settings:
            problems.append(f"source: the workers have settings of {source!r} already; leave these out, or rename it")
        providers = self._plugins.providers(self._values, Redaction())
        written = {**settings, **source_settings}
        problems += [f"{key}: {told}" for key, value in written.items() if (told := providers.problem(value))]
        if problems:
            raise ConfigurationError("\n".join(problems))
        own, found = flow_written({"enabled": "true", **providers.resolve(settings)})
        _, source_found = flow_written({f"source.cluster.{key}": value for key, value in source_settings.items()})
        own.source = {**own.source, **providers.resolve(source_settings)}
        flow, wrong = self._flow(source, target, own, shown=settings, source_shown=source_settings, origin="created")
        problems = [*found.problems, *source_found.problems, *wrong, *self._unknown(name, own.settings)]
        if flow is None or problems:
            raise ConfigurationError("\n".join(dict.fromkeys(problems)))
        return flow

    def unclaimed(self) -> list[str]:
        """Return settings of the configuration that no plugin has claimed, as sentences."""
        defaults = self._plugins.configured(FlowSettings.model_validate({}), {})[2]
        self._plugin_keys |= defaults
        found = [f"{key}: {wrong}" for key, wrong in unknown(self._written.flows, self._plugin_keys)]
        for (source, target), own in self._written.pairs.items():
            found += self._unknown(f"{source}{ARROW}{target}", own.settings)
        return found

    def _unknown(self, name: str, settings: Mapping[str, str]) -> list[str]:
        return [f"{name}.{key}: {wrong}" for key, wrong in unknown(settings, self._plugin_keys)]

    def _flow(
        self,
        source: str,
        target: str,
        own: ConfiguredFlow,
        *,
        shown: Mapping[str, str],
        source_shown: Mapping[str, str],
        origin: Literal["configuration", "created"],
    ) -> tuple[FlowConfig | None, list[str]]:
        name = f"{source}{ARROW}{target}"
        merged = {**self._written.flows, **self._written.targets.get(target, {}), **own.settings}
        own_keys = FlowSettings.known_keys()
        settings, wrong = checked(FlowSettings, {key: value for key, value in merged.items() if key in own_keys}, {})
        problems = [f"{name}.{each}" for each in wrong]
        plugins = None
        if settings is not None:
            given = {**merged, "source.cluster.alias": source, "target.cluster.alias": target}
            plugins, wrong, keys = self._plugins.configured(settings, given)
            self._plugin_keys |= keys
            problems += [f"{name}.{each}" for each in wrong]
        general = self._written.clients
        source_layers = [general, self._written.clusters.get(source, {}), own.source]
        target_layers = [general, self._written.clusters.get(target, {}), own.target]
        source_clients, wrong = cluster_clients(source_layers, f"{name}.source.")
        target_clients, target_wrong = cluster_clients(target_layers, f"{name}.target.")
        if source in self._clusters or source_shown:
            problems += wrong
        if target in self._clusters:
            problems += target_wrong
        if settings is not None and target_clients is not None:
            problems += [f"{name}.{each}" for each in _transaction_problems(settings, target_clients)]
        if settings is None or plugins is None or source_clients is None or target_clients is None:
            return None, problems
        flow = FlowConfig(
            name=name,
            source=source,
            target=target,
            origin=origin,
            settings=settings,
            plugins=plugins,
            source_clients=source_clients,
            target_clients=target_clients,
            written=dict(shown),
            source_written=dict(source_shown),
        )
        return flow, problems


def _transaction_problems(settings: FlowSettings, target: ClusterClients) -> list[str]:
    """Return what is wrong with the times of transactions."""
    timeout_ms, interval_ms = target.producer.numbers["transaction.timeout.ms"], settings.offset_flush_interval_ms
    if not settings.is_transactional or interval_ms * TIMEOUT_PER_INTERVAL_MIN <= timeout_ms:
        return []
    return [
        f"offset.flush.interval.ms: is {interval_ms}; transactions have to end well before transaction.timeout.ms of "
        f"the target's producer, {timeout_ms}: write at most {timeout_ms // TIMEOUT_PER_INTERVAL_MIN}"
    ]


def shown(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as they may be shown: secrets that are no references are hidden."""
    return {
        key: HIDDEN if is_secret_setting(key) and not has_reference(value) else value
        for key, value in settings.items()
    }


def _read(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error}") from None
