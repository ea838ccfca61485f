"""Tests of what all plugin classes have in common: their name, their entry point, their configuration."""

import importlib
import importlib.metadata
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pluggy
import pytest

from ottla_sdk import hookspecs
from ottla_sdk.conformance.configuration import (
    changed,
    expect_all_bad_settings_named,
    expect_defaults_as_text,
    expect_documented,
    expect_named,
    expect_secrets_kept,
)
from ottla_sdk.plugin import Plugin, class_name

Settings = Mapping[str, str] | Callable[[Path], Mapping[str, str]]
"""Valid settings; or a function that makes them, and what they speak of, in a directory that is new for each test."""

BadSettings = Sequence[tuple[Mapping[str, str | None], Iterable[str]]]
"""Changes to valid settings (None removes one), each with the keys that must be named as at fault."""


SuiteT = TypeVar("SuiteT", bound="PluginSuite")


class PluginSuite:
    """Base of the suites.

    Attributes:
        plugin: the class under test.
        valid_settings: settings that it takes.
        bad_settings: settings that it refuses.
    """

    plugin: ClassVar[type[Plugin[Any]]]
    valid_settings: ClassVar[Settings]
    bad_settings: ClassVar[BadSettings] = ()

    @pytest.fixture
    def settings(self, tmp_path: Path) -> dict[str, str]:
        """The valid settings."""
        valid = type(self).valid_settings
        return dict(valid(tmp_path) if callable(valid) else valid)

    def test_the_class_is_found_by_its_name(self) -> None:
        """Configurations name it, and processes import it: by module and name."""
        name = class_name(self.plugin)
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute, None) is self.plugin, f"{name} is something else"
        assert pickle.loads(pickle.dumps(self.plugin)) is self.plugin  # noqa: S301
        assert (self.plugin.__doc__ or "").strip(), f"{name} has no docstring, which documentation shows"

    def test_an_entry_point_declares_the_class(self) -> None:
        """Workers find it by the entry points of installed distributions."""
        package = self.plugin.__module__.partition(".")[0]
        points = [
            each
            for each in importlib.metadata.entry_points(group=hookspecs.ENTRY_POINT_GROUP)
            if each.module.partition(".")[0] == package
        ]
        assert points, f"{package} has no entry point in the group {hookspecs.ENTRY_POINT_GROUP}, or is not installed"
        declared = [plugin for point in points for plugin in _declared(point.load())]
        assert self.plugin in declared, f"no hook of {', '.join(each.value for each in points)} returns the class"

    def test_every_setting_is_documented(self) -> None:
        """Forms, REST and documentation show what a setting is for."""
        expect_documented(self.plugin.config_model)

    def test_valid_settings_are_taken(self, settings: dict[str, str]) -> None:
        """They are, together with settings that are not the plugin's own."""
        self.plugin().configure({**settings, "name": "conformance", "some.other.setting": "1"})

    def test_defaults_mean_the_same_when_written_out(self, settings: dict[str, str]) -> None:
        """REST shows defaults as texts, which users copy."""
        expect_defaults_as_text(self.plugin.config_model, settings)

    def test_everything_wrong_is_named_at_once(self, settings: dict[str, str]) -> None:
        """Users mend all of it, rather than one setting after the other."""
        expect_all_bad_settings_named(self.plugin.config_model, settings)
        for changes, keys in self.bad_settings:
            expect_named(self.plugin.config_model, changed(settings, changes), keys)

    def test_no_secret_is_shown(self, settings: dict[str, str]) -> None:
        """Not in logs, and not in what is said about bad settings."""
        expect_secrets_kept(self.plugin.config_model, settings)


def _declared(module: object) -> list[type[Any]]:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    names = [name for name in dir(manager.hook) if name.startswith(f"{hookspecs.PROJECT}_")]
    return [plugin for name in names for answer in getattr(manager.hook, name)() for plugin in answer]


def make_suite(
    base: type[SuiteT], plugin: type[Plugin[Any]], *, left_out: Iterable[str], **attributes: Any
) -> type[SuiteT]:
    """Return a suite for a plugin's class.

    Args:
        base: the suite.
        plugin: the class.
        left_out: tests that do not apply.
        attributes: the suite's attributes; functions stay functions, rather than become methods.
    """
    for name in left_out:
        assert hasattr(base, name), f"there is no test {name}"
    made = {name: staticmethod(value) if callable(value) else value for name, value in attributes.items()}
    return type(f"{plugin.__name__}Suite", (base,), {"plugin": plugin, **made, **dict.fromkeys(left_out)})


def expect_no_secret(texts: Iterable[str], secrets: Iterable[str]) -> None:
    """Check that none of the texts, which others get to see, has a secret in it."""
    found = list(texts)
    for secret in secrets:
        shown = [text for text in found if secret in text]
        assert not shown, f"a secret is shown: {shown[0].replace(secret, '…')[:200]}"


@contextmanager
def may_raise(kind: type[Exception]) -> Iterator[None]:
    """Let an error of this kind pass, if it says something."""
    try:
        yield
    except kind as error:
        if not str(error):
            raise AssertionError(f"the {kind.__name__} says nothing") from error
