"""Settings below a prefix: `tables.NAME.topic`, `write.path`, and the options that are passed on, `read.options.…`.

A `NestedConfig` is an ordinary model whose keys begin behind the prefix. Options are no settings of ours: they go to
Spark as they are, and are kept beside the model. Every other key below the prefix must be one of the model's, since
Spark would never miss what was misspelt.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Self, TypeVar

from pydantic import PrivateAttr

from ottla_sdk import InvalidConfig, PluginConfig, Problem

OPTIONS = "options."

ConfigT = TypeVar("ConfigT", bound=PluginConfig)


class NestedConfig(PluginConfig):
    """Settings below a prefix.

    Attributes:
        options: what is passed on, by names without `options.`.
    """

    _options: Mapping[str, str] = PrivateAttr(default_factory=dict)

    @property
    def options(self) -> Mapping[str, str]:
        """Return what is passed on to Spark."""
        return self._options

    @classmethod
    def parse(cls, settings: Mapping[str, str]) -> Self:
        """Return the configuration that the settings behind a prefix say.

        Raises:
            InvalidConfig: lists everything that is wrong, keys that there are not, too.
        """
        own = {key: value for key, value in settings.items() if not key.startswith(OPTIONS)}
        problems = list(unknown_keys(own, cls.keys()))
        parsed = collected(problems, super().parse, own)
        if parsed is None or problems:
            raise InvalidConfig(problems)
        parsed._options = below(settings, OPTIONS)  # noqa: SLF001 - it is frozen but for this
        return parsed


def unknown_keys(settings: Iterable[str], known: Iterable[str]) -> Iterator[Problem]:
    """Yield a problem for each key that is not known, with what may have been meant."""
    names = [key for key in known if not key.endswith("*")]
    for key in settings:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
            yield Problem(key, f"there is no such setting; {meant}")


def below(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings below a prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}


def collected(
    problems: list[Problem],
    parse: Callable[[Mapping[str, str]], ConfigT],
    settings: Mapping[str, str],
    prefix: str = "",
) -> ConfigT | None:
    """Return what `parse` makes of settings, or None and add what is wrong with them, under its full keys."""
    try:
        return parse(settings)
    except InvalidConfig as error:
        problems += (Problem(prefix + each.key, each.message) for each in error.problems)
        return None
