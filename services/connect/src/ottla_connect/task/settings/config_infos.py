"""The documents in which Kafka Connect's REST API describes settings: ConfigKeyInfo, ConfigValueInfo, ConfigInfos.

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla_sdk import PluginConfig
from ottla_sdk.config_description import SettingDescription, describe
from ottla_sdk.kafka.secret_settings import is_secret_setting
from ottla_sdk.runtime.redaction import HIDDEN
from ottla_sdk.runtime.references import has_reference

PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type

Document = dict[str, Any]


def key_infos(
    model: type[PluginConfig], *, prefix: str = "", group: str = "", types: Mapping[str, str] | None = None
) -> list[Document]:
    """Return the ConfigKeyInfo of every setting of a model.

    Args:
        model: it.
        prefix: before every key, such as ``transforms.route.``.
        group: heading for settings that have none of their own; with a prefix, for all.
        types: the types of some keys, where they are others than the model says.
    """
    return [
        _key_info(each, prefix, group if prefix or not each.group else each.group, order, types or {})
        for order, each in enumerate(describe(model), 1)
    ]


def key_info(
    key: str,
    kind: str,
    documentation: str,
    *,
    group: str,
    order: int,
    required: bool = False,
    default: str | None = None,
    importance: str = "MEDIUM",
) -> Document:
    """Return the ConfigKeyInfo of a setting that no model has."""
    return {
        "name": key,
        "type": kind,
        "required": required,
        "default_value": default,
        "importance": importance,
        "documentation": documentation,
        "group": group,
        "order_in_group": order,
        "width": "MEDIUM",
        "display_name": key,
        "dependents": [],
    }


def value_info(
    definition: Document, written: str | None, errors: Sequence[str], recommended: Sequence[str] = ()
) -> Document:
    """Return a ConfigInfo: a setting's definition, its value as it is written or its default, and what is wrong.

    A secret is not shown, unless it is a reference to one.
    """
    value = definition["default_value"] if written is None else written
    if definition["type"] == PASSWORD and value is not None and not has_reference(value):
        value = HIDDEN
    return {
        "definition": definition,
        "value": {
            "name": definition["name"],
            "value": value,
            "recommended_values": list(recommended),
            "errors": list(errors),
            "visible": True,
        },
    }


def unknown_value_info(key: str, written: str | None, errors: Sequence[str]) -> Document:
    """Return a ConfigInfo of a setting that has no definition; whether it is a secret, its name tells."""
    if is_secret_setting(key) and written is not None and not has_reference(written):
        written = HIDDEN
    return {
        "definition": None,
        "value": {"name": key, "value": written, "recommended_values": [], "errors": list(errors), "visible": True},
    }


def config_infos(name: str, groups: Sequence[str], configs: Sequence[Document]) -> Document:
    """Return a ConfigInfos document."""
    return {
        "name": name,
        "error_count": sum(len(each["value"]["errors"]) for each in configs),
        "groups": list(dict.fromkeys(groups)),
        "configs": list(configs),
    }


def _key_info(
    described: SettingDescription, prefix: str, group: str, order: int, types: Mapping[str, str]
) -> Document:
    default = described.default
    if described.type == PASSWORD and default is not None:
        default = HIDDEN
    return {
        "name": prefix + described.key,
        "type": types.get(described.key, described.type),
        "required": described.required,
        "default_value": default,
        "importance": described.importance,
        "documentation": described.documentation,
        "group": group,
        "order_in_group": order if prefix else described.order_in_group,
        "width": described.width,
        "display_name": described.display_name,
        "dependents": [],
    }
