"""Putting secrets in the place of the references in a link's settings.

Cluster state, and whoever asks for it, has `${provider:path:key}`. Each broker looks the values up itself when it
connects, by the config providers that *its own* settings name (`config.providers`, as workers of Connect): who may
make a link must not read whatever file the broker can read, by having it sent as a password.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from ottla_core.errors import ConfigurationError

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Looks up the values of references, anew each time, and returns the settings with them; blocks.

It raises ConfigurationError for one that has no value."""

_REFERENCE: Final = re.compile(r"\$\{[^}:]*:[^}]*\}")


def resolver(providers: Mapping[str, str]) -> Resolve:
    """Return what resolves references.

    Args:
        providers: the broker's settings `config.providers` and what is below it.
    """

    def resolve(settings: Mapping[str, str]) -> Mapping[str, str]:
        return _resolved(settings, providers) if any(map(_REFERENCE.search, settings.values())) else settings

    return resolve


def is_reference(value: str) -> bool:
    """Return whether a setting's value is a reference and nothing else."""
    return _REFERENCE.fullmatch(value) is not None


def _resolved(settings: Mapping[str, str], providers: Mapping[str, str]) -> Mapping[str, str]:
    # Plugins and what finds them are imported with the first reference: most brokers have no links.
    from ottla_sdk.errors import ConnectError  # noqa: PLC0415
    from ottla_sdk.runtime.config_providers import ConfigProviders  # noqa: PLC0415
    from ottla_sdk.runtime.plugin_lookup import PluginLookup  # noqa: PLC0415
    from ottla_sdk.runtime.redaction import Redaction  # noqa: PLC0415

    looked_up = ConfigProviders(providers, PluginLookup(), Redaction())
    try:
        for name, value in settings.items():
            if _REFERENCE.search(value) and (problem := looked_up.problem(value)) is not None:
                raise ConfigurationError(f"{name}: {problem}")
        return looked_up.resolve(settings)
    except ConnectError as error:
        raise ConfigurationError(str(error)) from error
    finally:
        looked_up.close()
