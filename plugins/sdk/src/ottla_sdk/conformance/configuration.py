"""Checks of a configuration model: everything said, everything wrong named at once, no secret shown."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ottla_sdk.config import PluginConfig
from ottla_sdk.config_description import SettingDescription, describe
from ottla_sdk.errors import InvalidConfig

_NO_VALUE_OF_THE_TYPE = {"BOOLEAN": "perhaps", "LONG": "many", "DOUBLE": "many"}
_SECRET = "conformance-secret-4711"  # noqa: S105


def expect_documented(model: type[PluginConfig]) -> None:
    """Check that every setting says in a sentence what it is for, and has a key that users can write."""
    for each in describe(model):
        assert each.documentation, f"{each.key} has no documentation: setting(…, doc=…)"
        assert each.documentation.rstrip().endswith((".", "!", "?")), f"{each.key}: its documentation is no sentence"
        assert each.key == each.key.strip(), f"{each.key!r} begins or ends with a space"
        assert not set(each.key) & set(" =:#"), f"{each.key!r} cannot be written as a property"


def expect_defaults_as_text(model: type[PluginConfig], settings: Mapping[str, str]) -> None:
    """Check that defaults are valid, and mean the same when a user writes them out."""
    texts = {
        each.key: each.default for each in describe(model) if each.default is not None and each.type != "PASSWORD"
    }
    written = model.parse({**texts, **settings})
    unwritten = model.parse(settings)
    for name, info in model.model_fields.items():
        key = info.alias or name
        assert getattr(written, name) == getattr(unwritten, name), f"{key}={texts.get(key)!r} is not its default"


def expect_all_bad_settings_named(model: type[PluginConfig], settings: Mapping[str, str]) -> None:
    """Check that missing settings, and those of a wrong type, are all named at once."""
    described = describe(model)
    if required := {each.key for each in described if each.required}:
        expect_named(model, {}, required)
    if wrong := {each.key: bad for each in described if (bad := _unfitting(each)) is not None}:
        expect_named(model, {**settings, **wrong}, wrong)


def expect_named(model: type[PluginConfig], settings: Mapping[str, str], keys: Iterable[str]) -> None:
    """Check that settings are refused, and all these keys named as at fault."""
    with pytest.raises(InvalidConfig) as refused:
        model.parse(settings)
    problems = {each.key: each.message for each in refused.value.problems}
    assert set(keys) <= set(problems), f"only {sorted(problems)} are named, not {sorted(set(keys) - set(problems))}"
    assert all(problems.values()), f"a problem says nothing: {problems}"


def expect_secrets_kept(model: type[PluginConfig], settings: Mapping[str, str]) -> None:
    """Check that no secret can be read in the configuration's text, or in what is said about a bad one."""
    secrets = {each.key: _SECRET for each in describe(model) if each.type == "PASSWORD"}
    assert _SECRET not in _complaint(model, {**settings, **secrets})
    wrong = {each.key: bad for each in describe(model) if (bad := _unfitting(each)) is not None}
    assert _SECRET not in _complaint(model, {**settings, **secrets, **wrong})


def _complaint(model: type[PluginConfig], settings: Mapping[str, str]) -> str:
    try:
        return repr(model.parse(settings))
    except InvalidConfig as error:
        return str(error)


def changed(settings: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return settings with some of them changed; None removes one."""
    merged: dict[str, Any] = {**settings, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _unfitting(described: SettingDescription) -> str | None:
    if described.allowed_values:
        return "none of these"
    return _NO_VALUE_OF_THE_TYPE.get(described.type)
