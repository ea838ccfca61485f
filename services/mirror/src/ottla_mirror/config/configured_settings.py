"""Settings as they were written, by what they are about: the worker, all flows, a cluster, one flow. Pure."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla_mirror.config.clients import PURPOSES
from ottla_mirror.config.flow_settings import FlowSettings
from ottla_mirror.config.settings_table import (
    OF_TARGETS,
    Fate,
    client_fate,
    is_client_key,
    known_client_keys,
    known_mirror_keys,
    mirror_fate,
)
from ottla_mirror.config.worker_settings import WorkerSettings

ARROW: Final = "->"
PROVIDERS_PREFIX: Final = "config.providers."
SIDES: Final = ("source.", "target.")
_OVERRIDE: Final = ".override."
_PURPOSE_PREFIXES: Final = tuple(f"{purpose}." for purpose in PURPOSES)

Pair = tuple[str, str]


@dataclass(slots=True)
class ConfiguredFlow:
    """What was written for one flow, or for all of them.

    Attributes:
        settings: of the flow and of its plugins.
        source: client settings of its source.
        target: client settings of its target.
    """

    settings: dict[str, str] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)
    target: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ConfiguredSettings:
    """Everything that was written.

    Attributes:
        worker: settings of the worker.
        flows: settings of all flows.
        clients: client settings of all clusters.
        clusters: client settings by alias.
        targets: settings of all flows to a cluster, by its alias.
        pairs: what was written for one flow, by source and target.
        notes: settings without effect, with the reason.
        problems: what is wrong, as sentences.
    """

    worker: dict[str, str] = field(default_factory=dict)
    flows: dict[str, str] = field(default_factory=dict)
    clients: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, dict[str, str]] = field(default_factory=dict)
    pairs: dict[Pair, ConfiguredFlow] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def sorted_out(values: Mapping[str, str], aliases: Sequence[str]) -> ConfiguredSettings:
    """Return what was written by what it is about. What no table knows may be a plugin's, and goes to the flows."""
    written = ConfiguredSettings(clusters={alias: {} for alias in aliases})
    worker_keys, flow_keys = WorkerSettings.known_keys(), FlowSettings.known_keys()
    for key, value in values.items():
        if ARROW in key:
            _take_flows(key, value, aliases, written)
        elif key in worker_keys:
            written.worker[key] = value
        elif key in flow_keys:
            written.flows[key] = value
        elif key.startswith(PROVIDERS_PREFIX):
            continue
        elif alias := _alias_before(key, aliases):
            _take_clusters(key, alias, value, written)
        elif _is_of_clients(key) and mirror_fate(key)[0] is Fate.UNKNOWN:
            _take_client(key, key, value, written.clients, written)
        else:
            _take_other(key, key, value, written.flows, written)
    return written


def flow_written(settings: Mapping[str, str]) -> tuple[ConfiguredFlow, ConfiguredSettings]:
    """Return the settings of one flow, written without a prefix; notes and problems are in the second."""
    flow, told = ConfiguredFlow(), ConfiguredSettings()
    for key, value in settings.items():
        _take_flow(key, key, value, flow, told)
    return flow, told


def unknown(keys: Iterable[str], plugin_keys: frozenset[str]) -> list[tuple[str, str]]:
    """Return settings of flows that nothing has, each with what to do about it."""
    known = FlowSettings.known_keys() | plugin_keys
    candidates = known | known_mirror_keys() | known_client_keys() | WorkerSettings.known_keys()
    return [(key, _unknown(key, candidates)) for key in keys if key not in known]


def _take_flows(key: str, value: str, aliases: Sequence[str], written: ConfiguredSettings) -> None:
    source, _, rest = key.partition(ARROW)
    target = _alias_before(rest, aliases)
    if source not in aliases or target is None:
        written.problems.append(f"{key}: write SOURCE->TARGET.setting with two of the aliases in clusters")
    elif source == target:
        written.problems.append(f"{key}: a cluster is not mirrored to itself")
    else:
        flow = written.pairs.setdefault((source, target), ConfiguredFlow())
        _take_flow(key, rest.removeprefix(f"{target}."), value, flow, written)


def _take_flow(key: str, bare: str, value: str, flow: ConfiguredFlow, told: ConfiguredSettings) -> None:
    for side, settings in (("source.", flow.source), ("target.", flow.target)):
        rest = bare.removeprefix(side)
        if (
            rest != bare
            and rest.startswith(("cluster.", *_PURPOSE_PREFIXES))
            and not rest.startswith("cluster.alias")
        ):
            _take_client(key, rest.removeprefix("cluster."), value, settings, told)
            return
    if bare in FlowSettings.known_keys():
        flow.settings[bare] = value
    elif bare in WorkerSettings.known_keys():
        told.problems.append(f"{key}: holds for the whole worker; write {bare}")
    elif bare.startswith(_PURPOSE_PREFIXES) and mirror_fate(bare)[0] is Fate.UNKNOWN:
        # As in MirrorMaker: who reads is the source's consumer, who writes the target's producer.
        client_key = bare.replace(_OVERRIDE, ".", 1)
        sides = {"consumer": [flow.source], "producer": [flow.target]}.get(
            bare.partition(".")[0], [flow.source, flow.target]
        )
        for settings in sides:
            _take_client(key, client_key, value, settings, told)
    else:
        _take_other(key, bare, value, flow.settings, told)


def _take_clusters(key: str, alias: str, value: str, written: ConfiguredSettings) -> None:
    bare = key.removeprefix(f"{alias}.")
    if bare in WorkerSettings.known_keys():
        written.problems.append(f"{key}: holds for the whole worker; write {bare}")
    elif _is_of_clients(bare) and mirror_fate(bare)[0] is Fate.UNKNOWN:
        _take_client(key, bare, value, written.clusters[alias], written)
    elif bare in OF_TARGETS:
        written.targets.setdefault(alias, {})[bare] = value
    elif bare in FlowSettings.known_keys():
        written.problems.append(f"{key}: holds for flows; write SOURCE->TARGET.{bare}, or {bare} for all of them")
    else:
        fate, reason = mirror_fate(bare, value)
        if fate is Fate.WITHOUT_EFFECT:
            written.notes.append(f"{key}: {reason}")
        elif fate is not Fate.HONOURED:
            written.problems.append(f"{key}: {reason or _unknown(bare, known_client_keys())}")


def _take_client(key: str, bare: str, value: str, settings: dict[str, str], told: ConfiguredSettings) -> None:
    purpose = next((prefix for prefix in _PURPOSE_PREFIXES if bare.startswith(prefix)), "")
    name = bare.removeprefix(purpose)
    fate, reason = client_fate(name, value)
    if fate is Fate.HONOURED:
        settings[bare] = value
    elif fate is Fate.WITHOUT_EFFECT:
        told.notes.append(f"{key}: {reason}")
    else:
        told.problems.append(f"{key}: {reason or _unknown(name, known_client_keys())}")


def _take_other(key: str, bare: str, value: str, settings: dict[str, str], told: ConfiguredSettings) -> None:
    fate, reason = mirror_fate(bare, value)
    if fate is Fate.WITHOUT_EFFECT:
        told.notes.append(f"{key}: {reason}")
    elif fate is Fate.REFUSED:
        told.problems.append(f"{key}: {reason}")
    elif fate is Fate.UNKNOWN:
        settings[bare] = value


def _is_of_clients(key: str) -> bool:
    return is_client_key(key) or client_fate(key)[0] is not Fate.UNKNOWN or key.startswith(_PURPOSE_PREFIXES)


def _alias_before(key: str, aliases: Sequence[str]) -> str | None:
    """Return the longest alias with which a key begins, as aliases may have dots."""
    return max((alias for alias in aliases if key.startswith(f"{alias}.")), key=len, default=None)


def _unknown(key: str, candidates: Iterable[str]) -> str:
    similar = difflib.get_close_matches(key, sorted(candidates), n=1)
    return f"unknown setting; did you mean {similar[0]}?" if similar else "unknown setting"
