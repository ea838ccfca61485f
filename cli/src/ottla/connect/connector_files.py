"""Files that describe connectors, as YAML or JSON. Pure.

A document is what Kafka Connect's REST API takes (`name`, `config` and perhaps `initial_state`), or the settings
alone with `name` among them; a file may hold several, as a list or as YAML documents. Values are settings, and
settings are text: numbers, dates and booleans stay as they are written, lists become words with commas between.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml

INITIAL_STATES = ("running", "paused", "stopped")
NAME, CLASS = "name", "connector.class"
_REQUEST_KEYS = {"name", "config", "initial_state"}


class BadConnectorFile(ValueError):
    """A file does not describe connectors; the message says where and why."""


@dataclass(frozen=True, slots=True)
class ConnectorDescription:
    """A connector as a user wants it.

    Attributes:
        name: its name.
        config: its settings, without `name`.
        initial_state: one of `INITIAL_STATES`; None if nothing is said.
    """

    name: str
    config: Mapping[str, str] = field(default_factory=dict)
    initial_state: str | None = None

    @property
    def plugin(self) -> str | None:
        """The connector's class."""
        return self.config.get(CLASS)


def parse_connectors(text: str, origin: str) -> list[ConnectorDescription]:
    """Return the connectors of a file.

    Args:
        text: the file's content.
        origin: the file's name, for messages.

    Raises:
        BadConnectorFile: it describes none, or something else.
    """
    documents = _read_documents(text, origin)
    found = [
        _connector(each, f"{origin}: connector {number}" if len(documents) > 1 else origin)
        for number, each in enumerate(documents, start=1)
    ]
    if not found:
        raise BadConnectorFile(f"{origin}: it describes no connector")
    return found


def with_changes(
    connectors: Sequence[ConnectorDescription],
    *,
    name: str | None,
    settings: Mapping[str, str],
    initial_state: str | None,
) -> list[ConnectorDescription]:
    """Return connectors changed by what was typed beside their files.

    Raises:
        BadConnectorFile: the result is no connector, or several would have one name.
    """
    if name is not None and len(connectors) != 1:
        raise BadConnectorFile(f"there are {len(connectors)} connectors, which cannot all be called {name}")
    changed = [
        replace(
            each,
            name=each.name if name is None else name,
            config={**each.config, **{key: value for key, value in settings.items() if key != NAME}},
            initial_state=initial_state or each.initial_state,
        )
        for each in connectors
    ]
    names = [each.name for each in changed]
    if any(not each for each in names):
        raise BadConnectorFile("a connector has no name; write it as `name`, or give it with --name")
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise BadConnectorFile(f"several connectors have the name {', '.join(twice)}")
    return changed


def _read_documents(text: str, origin: str) -> list[Any]:
    import yaml  # noqa: PLC0415 - most commands do without

    try:
        # JSON that is indented by tabs is no YAML.
        found = [_read_json(text)] if text.lstrip()[:1] in ("{", "[") else _read_yaml(text)
    except RecursionError:
        raise BadConnectorFile(f"{origin}: it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadConnectorFile(f"{origin}: it is neither YAML nor JSON: {_one_line(error)}") from None
    documents: list[Any] = []
    for each in found:
        documents += each if isinstance(each, list) else [] if each is None else [each]
    return documents


def _read_json(text: str) -> Any:
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError as error:
        try:
            (document,) = _read_yaml(text)  # YAML has such braces, too
        except ValueError:
            raise error from None
        return document


def _read_yaml(text: str) -> list[Any]:
    import yaml  # noqa: PLC0415

    return list(yaml.load_all(text, Loader=_settings_loader()))


def _settings_loader() -> "type[yaml.SafeLoader]":
    """Return YAML's safe loader without its guesses at types: but for null, what is written is the value."""
    import yaml  # noqa: PLC0415

    class SettingsLoader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's

    SettingsLoader.add_implicit_resolver(
        "tag:yaml.org,2002:null", re.compile("^(~|null|Null|NULL|)$"), ["~", "n", "N", ""]
    )
    SettingsLoader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile("^<<$"), ["<"])
    return SettingsLoader


def _connector(document: Any, where: str) -> ConnectorDescription:
    if not isinstance(document, dict):
        raise BadConnectorFile(f"{where}: a connector is a mapping of settings")
    if "config" not in document:
        settings = _settings(document, where)
        return ConnectorDescription(settings.get(NAME, ""), _without_name(settings))
    if unknown := document.keys() - _REQUEST_KEYS:
        raise BadConnectorFile(f"{where}: beside config there is no {', '.join(sorted(map(str, unknown)))}")
    if not isinstance(document["config"], dict):
        raise BadConnectorFile(f"{where}: config is a mapping of settings")
    config = _settings(document["config"], where)
    name = document.get("name") or config.get(NAME, "")
    if not isinstance(name, str) or config.get(NAME, name) != name:
        raise BadConnectorFile(f"{where}: it has two names, {name} and {config.get(NAME)}")
    return ConnectorDescription(name, _without_name(config), _initial_state(document.get("initial_state"), where))


def _settings(document: Mapping[Any, Any], where: str) -> dict[str, str]:
    return {str(key): _text(value, f"{where}: {key}") for key, value in document.items()}


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    if value is None:
        raise BadConnectorFile(f'{where}: it has no value; leave it out, or write ""')
    raise BadConnectorFile(f"{where}: a setting is text, a number or a list of words")


def _initial_state(value: Any, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value.lower() not in INITIAL_STATES:
        raise BadConnectorFile(f"{where}: initial_state is one of {', '.join(INITIAL_STATES)}, not {value}")
    return value.lower()


def _without_name(settings: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key != NAME}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
