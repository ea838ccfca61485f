"""The form of a connector's settings, made from a worker's validation of them, and what somebody typed into it. Pure.

A secret that is stored goes to no page: its field is empty, in JSON it is `HIDDEN`, and either of these keeps it.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla_console.views.connector import PASSWORD
from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.runtime.redaction import HIDDEN
from ottla_sdk.runtime.references import has_reference

FIELD_PREFIX: Final = "s."
NAME_KEY: Final = "name"
CLASS_KEY: Final = "connector.class"
MORE: Final = "more"
RETYPE: Final = "retype"
"""The form's field with the keys, one a line, of secrets that were typed and have to be typed again."""
JSON: Final = "json"
SETTINGS_MAX: Final = 1000


class BadConnector(ValueError):
    """What was typed is no set of settings; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A setting in the form.

    Attributes:
        id: of its elements in the page.
        kind: secret, boolean, long (several lines), or text.
        value: as it was typed or stored; of a secret nothing, unless it refers to a config provider.
        default: empty where there is none.
        recommended: values that the plugin suggests.
        errors: what the worker finds wrong.
        is_kept: whether a secret is stored that stays if nothing is typed.
    """

    key: str
    id: str
    title: str
    kind: str
    value: str
    default: str
    is_required: bool
    importance: str
    documentation: str
    recommended: tuple[str, ...]
    errors: tuple[str, ...]
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Settings under one heading; open if they matter to most, have values, or are wrong."""

    title: str
    fields: tuple[Field, ...]
    is_open: bool


def form_groups(infos: Mapping[str, Any], config: Mapping[str, str], stored_secrets: Collection[str]) -> list[Group]:
    """Return the groups of the form, in the order of the plugin.

    Args:
        infos: the ConfigInfos of a validation.
        config: what was typed or is stored.
        stored_secrets: keys of secrets that are stored and stay.
    """
    by_group: dict[str, list[tuple[int, Field]]] = {str(each): [] for each in infos["groups"]}
    for each in infos["configs"]:
        definition, value = each["definition"], each["value"]
        if definition is None or not value.get("visible", True) or definition["name"] in (CLASS_KEY, NAME_KEY):
            continue
        field = _field(definition, value, config, stored_secrets)
        by_group.setdefault(str(definition["group"] or ""), []).append((int(definition["order_in_group"]), field))
    groups = []
    for title, numbered in by_group.items():
        fields = tuple(field for _, field in sorted(numbered, key=lambda pair: pair[0]))
        is_open = any(each.importance == "HIGH" or each.value or each.errors or each.is_kept for each in fields)
        if fields:
            groups.append(Group(title or "Other", fields, is_open))
    return groups


def more_settings(infos: Mapping[str, Any], config: Mapping[str, str], secrets: Collection[str]) -> str:
    """Return the settings that have no field, as lines ``KEY=VALUE``."""
    defined = {each["definition"]["name"] for each in infos["configs"] if each["definition"] is not None}
    own = {key: value for key, value in config.items() if key not in defined | {NAME_KEY, CLASS_KEY}}
    return "\n".join(f"{key}={_line(HIDDEN if key in secrets else own[key])}" for key in sorted(own))


def found_problems(infos: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each setting that is wrong with the reason; a setting may be there several times."""
    return [
        (str(each["value"]["name"]), str(error)) for each in infos["configs"] for error in each["value"]["errors"]
    ]


def field_errors(infos: Mapping[str, Any], form: Mapping[str, str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return for each field that a posted form has, by the id of its element, what is wrong with it."""
    return [
        (field_id(key), tuple(map(str, each["value"]["errors"])))
        for each in infos["configs"]
        if (key := str(each["value"]["name"])) not in (NAME_KEY, CLASS_KEY) and f"{FIELD_PREFIX}{key}" in form
    ]


def typed_config(form: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in a posted form, or in its JSON; fields without a value are not set.

    Raises:
        BadConnector: the JSON is none, or a line has no ``=``.
    """
    if JSON in form:
        return _json_config(form[JSON])
    config = {
        key.removeprefix(FIELD_PREFIX): value.replace("\r\n", "\n")
        for key, value in form.items()
        if key.startswith(FIELD_PREFIX) and value.strip()
    }
    for number, line in enumerate(form.get(MORE, "").splitlines(), 1):
        key, equals, value = line.partition("=")
        if not line.strip():
            continue
        if not equals or not key.strip():
            raise BadConnector(f"More settings, line {number}: write KEY=VALUE")
        config[key.strip()] = value.replace("\\n", "\n").strip()
    return config


def with_kept_secrets(
    typed: Mapping[str, str], stored: Mapping[str, str], secrets: Collection[str]
) -> dict[str, str]:
    """Return settings with the secrets that were not typed anew.

    Args:
        typed: the settings in a form.
        stored: the connector's; none for a new one.
        secrets: keys of `stored` whose values were not shown.

    Raises:
        BadConnector: a value is `HIDDEN` where none is stored.
    """
    config = dict(typed)
    for key, value in typed.items():
        if value == HIDDEN:
            if key not in secrets:
                raise BadConnector(f"{key}: no secret is stored; type it")
            config[key] = stored[key]
    return config


def with_untouched_fields(
    config: Mapping[str, str], form: Mapping[str, str], stored: Mapping[str, str], secrets: Collection[str]
) -> dict[str, str]:
    """Return settings with the stored secrets whose fields of the form are empty."""
    kept = {key: stored[key] for key in secrets if form.get(f"{FIELD_PREFIX}{key}") == ""}
    return {**config, **kept}


def check_retyped(form: Mapping[str, str], typed: Mapping[str, str]) -> None:
    """Return if all secrets that were lost with the last answer were typed again: an older one must not come back.

    Raises:
        BadConnector: one was not.
    """
    for key in form.get(RETYPE, "").splitlines():
        if form.get(f"{FIELD_PREFIX}{key}") == "" or typed.get(key) == HIDDEN:
            raise BadConnector(f"{key}: type it again, as secrets are not sent back")


def json_text(config: Mapping[str, str], secrets: Collection[str]) -> str:
    """Return settings as JSON, secrets as `HIDDEN`."""
    shown = {key: HIDDEN if key in secrets else value for key, value in sorted(config.items())}
    return json.dumps(shown, indent=2, ensure_ascii=False)


def config_mark(shown: Mapping[str, str]) -> str:
    """Return a text that other settings do not have, of settings as they are shown: nothing of it tells a secret."""
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


def unshown_keys(config: Mapping[str, str], infos: Mapping[str, Any] | None) -> frozenset[str]:
    """Return which settings that were typed are secrets, so that they are not sent back to the page."""
    told = {
        each["definition"]["name"]
        for each in (infos or {"configs": ()})["configs"]
        if each["definition"] is not None and each["definition"]["type"] == PASSWORD
    }
    return frozenset(
        key for key, value in config.items() if (key in told or is_secret_setting(key)) and not has_reference(value)
    )


def field_id(key: str) -> str:
    """Return an id for a page's element: keys may have any characters."""
    return f"f-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _field(
    definition: Mapping[str, Any],
    value: Mapping[str, Any],
    config: Mapping[str, str],
    stored_secrets: Collection[str],
) -> Field:
    key = str(definition["name"])
    written = config.get(key, "")
    is_secret = definition["type"] == PASSWORD or is_secret_setting(key)
    if key in stored_secrets and not is_secret:
        written = HIDDEN  # a URL with a login: the text keeps it
    default = str(definition["default_value"] or "")
    return Field(
        key=key,
        id=field_id(key),
        title=str(definition["display_name"] or key),
        kind=_kind(definition, written, is_secret=is_secret and not has_reference(written)),
        value="" if is_secret and not has_reference(written) else written,
        default=HIDDEN if is_secret and default else default,
        is_required=bool(definition["required"]),
        importance=str(definition["importance"]),
        documentation=str(definition["documentation"] or ""),
        recommended=tuple(str(each) for each in value.get("recommended_values") or ()),
        errors=tuple(str(each) for each in value["errors"]),
        is_kept=is_secret and key in stored_secrets,
    )


def _kind(definition: Mapping[str, Any], written: str, *, is_secret: bool) -> str:
    if is_secret:
        return "secret"
    if definition["type"] == "BOOLEAN" and written in ("", "true", "false"):
        return "boolean"
    is_long = definition["type"] == "STRING" and definition.get("width") == "LONG"
    return "long" if is_long or "\n" in written else "text"


def _json_config(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadConnector(f"This is no JSON: {str(error)[:200]}") from None
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        found = {**found["config"], **({NAME_KEY: found[NAME_KEY]} if NAME_KEY in found else {})}
    if not isinstance(found, dict) or len(found) > SETTINGS_MAX:
        raise BadConnector(f"The JSON is an object of settings, at most {SETTINGS_MAX:,}")
    if wrong := [key for key, value in found.items() if isinstance(value, dict | list) or value is None]:
        raise BadConnector(f"{wrong[0]}: its value is a text, a number, true or false")
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _line(value: str) -> str:
    return value.replace("\n", "\\n")
