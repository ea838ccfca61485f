"""Validates everything that a connector's settings say, and lists all that is wrong at once (AbstractHerder). Pure.

That is: what all connectors have; the converters, transforms and predicates that are named, with their settings; the
connector's own settings; overrides of its Kafka clients. References to config providers are resolved for this, but
neither shown nor named in messages.
"""

import difflib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ottla_connect.client_settings import ClientKind
from ottla_connect.config import WorkerConfig
from ottla_connect.task.clients import overrides
from ottla_connect.task.pipeline.transform_chain import NEGATE_KEY, PREDICATE_KEY, aliases, below
from ottla_connect.task.settings.client_check import client_setting_problems
from ottla_connect.task.settings.config_infos import (
    Document,
    config_infos,
    key_info,
    key_infos,
    unknown_value_info,
    value_info,
)
from ottla_connect.task.settings.connector_settings import (
    OFFSETS_TOPIC_KEY,
    PREDICATES,
    TRANSFORMS,
    TYPES,
    ConnectorSettings,
    SinkSettings,
    SourceSettings,
    sink_problems,
)
from ottla_connect.task.settings.exactly_once import exactly_once_problems
from ottla_connect.task.source import topic_creation
from ottla_sdk import (
    Connector,
    Converter,
    InvalidConfig,
    Plugin,
    PluginConfig,
    Predicate,
    Problem,
    Role,
    SinkConnector,
    SourceConnector,
    Transform,
)
from ottla_sdk.kafka.client_settings import ClientSettingError
from ottla_sdk.runtime.config_providers import ConfigProviders
from ottla_sdk.runtime.plugin_lookup import PluginLookup, PluginNotFound
from ottla_sdk.runtime.redaction import Redaction
from ottla_sdk.runtime.references import has_reference

ALIKE = 0.85
"""How much alike a misspelt setting is to the one that was meant, from 0 to 1."""
OPEN_PREFIXES = (
    *("transforms.", "predicates.", "topic.creation.", "tables.", "outputs.", "spark."),
    *("producer.override.", "consumer.override.", "admin.override."),
    *("key.converter.", "value.converter.", "header.converter."),
)
"""Below these there are settings with names of the user's own."""
CLASS_KEY = "connector.class"
CLIENT_KINDS: tuple[ClientKind, ...] = ("producer", "consumer", "admin")


class Validation:
    """The validation of one connector's settings.

    Args:
        written: the settings as users wrote them.
        worker: the worker's settings.
        lookup: finds plugin classes.
        providers: resolves references.
        redaction: takes what they resolve to out of messages.
    """

    def __init__(
        self,
        written: Mapping[str, str],
        *,
        worker: WorkerConfig,
        lookup: PluginLookup,
        providers: ConfigProviders,
        redaction: Redaction,
    ) -> None:
        self._written = written
        self._worker = worker
        self._lookup = lookup
        self._redaction = redaction
        self._definitions: dict[str, Document] = {}
        self._recommended: dict[str, list[str]] = {}
        self._errors: dict[str, list[str]] = defaultdict(list)
        self._settings: dict[str, str] = {}
        for key, value in written.items():
            if not has_reference(value):
                self._settings[key] = value
            elif (problem := providers.problem(value)) is not None:
                self._errors[key].append(problem)
            else:
                self._settings |= providers.resolve({key: value})

    def run(self) -> Document:
        """Return the ConfigInfos document."""
        connector = self._find(CLASS_KEY, Connector)
        model = ConnectorSettings
        if connector is not None:
            model = SinkSettings if issubclass(connector, SinkConnector) else SourceSettings
        self._define(key_infos(model, types=TYPES))
        self._parse(model)
        self._check_kind(connector)
        for alias in aliases(self._settings, "transforms"):
            self._check_transform(alias)
        for alias in aliases(self._settings, "predicates"):
            self._check_alias(alias, "predicates", PREDICATES, Predicate)
        for role in Role:
            self._check_converter(role)
        if connector is not None:
            self._check_connector(connector)
        for kind in CLIENT_KINDS:
            self._check_overrides(kind)
        if connector is not None:
            self._check_spelling({*model.keys(), *connector.config_model.keys()})
        return self._document()

    def _check_spelling(self, keys: set[str]) -> None:
        """Refuse settings that are nearly called as one that is not set; others are ignored, as in Kafka Connect."""
        known = keys | self._definitions.keys()
        unset = known - self._written.keys()
        if "topics.regex" in self._written:
            unset.discard("topics")  # only one of them can be meant
        for key in self._written:
            if key in known or key.startswith(OPEN_PREFIXES):
                continue
            if nearest := difflib.get_close_matches(key, unset, 1, cutoff=ALIKE):
                self._errors[key].append(f"there is no such setting; did you mean {nearest[0]}?")

    def _check_kind(self, connector: type[Connector[Any]] | None) -> None:
        if connector is None:
            return
        if issubclass(connector, SinkConnector):
            self._add(sink_problems(self._settings))
        elif issubclass(connector, SourceConnector):
            self._add(topic_creation.problems(self._settings))
            self._add(self._offsets_topic_problems())
        else:
            self._errors[CLASS_KEY].append("is neither a source nor a sink")

    def _offsets_topic_problems(self) -> Iterator[Problem]:
        topic = self._settings.get(OFFSETS_TOPIC_KEY, "").strip()
        if topic and topic != self._worker.offset_storage_topic:
            yield Problem(
                OFFSETS_TOPIC_KEY,
                "offsets of all connectors are in the topic offset.storage.topic of the workers, so that any of them "
                "can answer for them; remove it",
            )

    def _check_connector(self, kind: type[Connector[Any]]) -> None:
        self._define(key_infos(kind.config_model, group=kind.__name__))
        try:
            if not self._parse(kind.config_model):
                return
            connector = kind()
            connector.configure(self._settings)
            self._add(connector.check())
            if isinstance(connector, SourceConnector):
                self._add(exactly_once_problems(connector, self._settings, self._worker))
        except InvalidConfig as error:
            self._add(error.problems)
        except Exception as error:  # noqa: BLE001 - whatever a connector's own check raises
            self._errors[CLASS_KEY].append(self._shown(f"its check has failed: {type(error).__name__}: {error}"))

    def _check_transform(self, alias: str) -> None:
        prefix, group = f"transforms.{alias}.", f"{TRANSFORMS}: {alias}"
        own = below(self._settings, prefix)
        if PREDICATE_KEY in own or NEGATE_KEY in own:
            self._define(
                [
                    key_info(prefix + PREDICATE_KEY, "STRING", "Name of a predicate.", group=group, order=1),
                    key_info(
                        prefix + NEGATE_KEY,
                        "BOOLEAN",
                        "Whether the transform applies where the predicate does not hold.",
                        group=group,
                        order=2,
                        default="false",
                    ),
                ]
            )
        name = own.get(PREDICATE_KEY, "").strip()
        if name and name not in aliases(self._settings, "predicates"):
            self._errors[prefix + PREDICATE_KEY].append(f"there is no {name!r} among the connector's predicates")
        if NEGATE_KEY in own and not name:
            self._errors[prefix + NEGATE_KEY].append(f"there is no {prefix}{PREDICATE_KEY} that could be negated")
        if own.get(NEGATE_KEY, "false").strip().lower() not in ("true", "false"):
            self._errors[prefix + NEGATE_KEY].append("must be true or false")
        self._check_alias(alias, "transforms", TRANSFORMS, Transform, ignored=(PREDICATE_KEY, NEGATE_KEY))

    def _check_alias(
        self, alias: str, key: str, heading: str, kind: type[Plugin[Any]], ignored: tuple[str, ...] = ()
    ) -> None:
        prefix, group = f"{key}.{alias}.", f"{heading}: {alias}"
        type_key = f"{prefix}type"
        word = kind.__name__.lower()
        self._define(
            [
                key_info(
                    type_key,
                    "CLASS",
                    f"Class of the {word} {alias!r}.",
                    group=group,
                    order=0,
                    required=True,
                    importance="HIGH",
                )
            ]
        )
        found = self._find(type_key, kind)
        if found is not None:
            self._define(key_infos(found.config_model, prefix=prefix, group=group))
            self._parse_plugin(found, prefix, ignored)

    def _check_converter(self, role: Role) -> None:
        key = f"{role.value}.converter"
        if not self._written.get(key, "").strip():
            return
        found = self._find(key, Converter)
        if found is not None:
            prefix = f"{key}."
            self._define(key_infos(found.config_model, prefix=prefix, group=found.__name__))
            self._parse_plugin(found, prefix)

    def _check_overrides(self, kind: ClientKind) -> None:
        own = overrides(kind, self._settings)
        if not own:
            return
        prefix = f"{kind}.override."
        problems = self._worker.override_problems(kind, own)
        if not problems:
            try:
                problems = [prefix + each for each in client_setting_problems(kind, self._worker, own)]
            except ClientSettingError as error:
                problems = [f"{prefix}{each}" for each in error.problems]
        for sentence in problems:
            key, _, message = sentence.partition(": ")
            self._errors[key if key.startswith(prefix) else f"{prefix}{key}"].append(self._shown(message or sentence))

    def _find(self, key: str, kind: type[Any]) -> type[Any] | None:
        name = self._settings.get(key, "").strip()
        if not name:
            if key != CLASS_KEY and not self._errors[key]:
                self._errors[key].append("must be set, there is no default")
            return None
        try:
            return self._lookup.find(name, kind)
        except PluginNotFound as error:
            self._errors[key].append(str(error))
            return None

    def _parse_plugin(self, plugin: type[Plugin[Any]], prefix: str, ignored: tuple[str, ...] = ()) -> None:
        """Validate the settings below a prefix as the plugin does it itself."""
        own = {key: value for key, value in below(self._settings, prefix).items() if key not in ignored}
        try:
            plugin().configure(own)
        except InvalidConfig as error:
            self._add(error.problems, prefix)
        except Exception as error:  # noqa: BLE001 - whatever a plugin does with its settings
            key = prefix.removesuffix(".") if prefix.removesuffix(".") in self._written else f"{prefix}type"
            self._errors[key].append(self._shown(f"its settings are refused: {type(error).__name__}: {error}"))

    def _parse(self, model: type[PluginConfig]) -> bool:
        """Validate settings by a model; returns whether they are right."""
        unusable = [key for key in set(model.keys()) if key in self._written and key not in self._settings]
        try:
            model.parse(self._settings)
        except InvalidConfig as error:
            self._add(each for each in error.problems if each.key not in unusable)
            return False
        return not unusable

    def _add(self, problems: Iterable[Problem], prefix: str = "") -> None:
        for problem in problems:
            key = prefix + problem.key if problem.key else (f"{prefix}type" if prefix else CLASS_KEY)
            message = self._shown(problem.message)
            if message not in self._errors[key]:
                self._errors[key].append(message)

    def _shown(self, text: str) -> str:
        return self._redaction.text(text)

    def _define(self, definitions: Iterable[Document]) -> None:
        self._definitions.update({each["name"]: each for each in definitions})

    def _document(self) -> Document:
        configs = [
            value_info(definition, self._written.get(key), [*map(self._shown, self._errors.get(key, ()))])
            for key, definition in self._definitions.items()
        ]
        configs += [
            unknown_value_info(key, self._written.get(key), [*map(self._shown, errors)])
            for key, errors in self._errors.items()
            if errors and key not in self._definitions
        ]
        groups = [each["group"] for each in self._definitions.values() if each["group"]]
        return config_infos(self._written.get(CLASS_KEY, ""), groups, configs)
