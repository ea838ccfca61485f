"""Tests of config providers: they find what there is, and say nothing about other secrets when there is nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ottla_sdk.config_provider import ConfigProvider
from ottla_sdk.conformance.plugin_suite import BadSettings, PluginSuite, Settings, make_suite
from ottla_sdk.errors import FatalError


class ConfigProviderSuite(PluginSuite):
    """The suite; `config_provider_suite` makes one for a class.

    Attributes:
        plugin: the provider's class.
        known: values by path and key; in paths ``{directory}`` stands for the directory that the settings got.
        unknown: a path and a key that do not exist, where the others are.
    """

    plugin: ClassVar[type[ConfigProvider[Any]]]
    known: ClassVar[Mapping[tuple[str, str], str]]
    unknown: ClassVar[tuple[str, str]]

    def test_known_values_are_found(self, settings: dict[str, str], tmp_path: Path) -> None:
        """As often as they are asked for."""
        provider = self._provider(settings)
        for _ in range(2):
            for (path, key), value in self.known.items():
                assert provider.get(_in(tmp_path, path), key) == value
        provider.close()

    def test_an_unknown_value_is_an_error_that_shows_no_other(self, settings: dict[str, str], tmp_path: Path) -> None:
        """What is wrong ends up in logs and in REST."""
        provider = self._provider(settings)
        path, key = self.unknown
        with pytest.raises(FatalError) as refused:
            provider.get(_in(tmp_path, path), key)
        assert str(refused.value), "the error says nothing"
        assert not [value for value in self.known.values() if value in str(refused.value)]

    def test_close_may_come_again(self, settings: dict[str, str]) -> None:
        """Twice, and before any value."""
        provider = self._provider(settings)
        provider.close()
        provider.close()

    def _provider(self, settings: Mapping[str, str]) -> ConfigProvider[Any]:
        provider = self.plugin()
        provider.configure(settings)
        return provider


def _in(directory: Path, path: str) -> str:
    return path.replace("{directory}", str(directory))


def config_provider_suite(
    provider: type[ConfigProvider[Any]],
    *,
    settings: Settings,
    known: Mapping[tuple[str, str], str],
    unknown: tuple[str, str],
    bad_settings: BadSettings = (),
    is_installed: bool = True,
) -> type[ConfigProviderSuite]:
    """Return the suite for a config provider; give it a name that begins with ``Test``.

    Args:
        provider: the class.
        settings: valid settings, or a function of a fresh directory that returns some and writes the values there.
        known: values by path and key; ``{directory}`` in a path stands for the fresh directory.
        unknown: a path and a key that do not exist, where the others are.
        bad_settings: changes to the settings, each with the keys that must be named as at fault.
        is_installed: whether the plugin's distribution is installed.
    """
    return make_suite(
        ConfigProviderSuite,
        provider,
        left_out=[] if is_installed else ["test_an_entry_point_declares_the_class"],
        valid_settings=settings,
        bad_settings=bad_settings,
        known=known,
        unknown=unknown,
    )
