"""Finds, makes and configures the classes that `authorizer.class.name` and `principal.builder.class` name.

The broker's own classes and those of installed plugins answer the same hooks (`ottla_sdk.hookspecs`). Plugins, and
what finds them, are imported when a class is named.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ottla_core.errors import ConfigurationError

if TYPE_CHECKING:
    from ottla_sdk.broker import Authorizer, PrincipalBuilder
    from ottla_sdk.plugin import Plugin

    PluginT = TypeVar("PluginT", bound=Plugin[Any])

AUTHORIZER_KEY: Final = "authorizer.class.name"
AUTHORIZER_PREFIX: Final = "authorizer."
BUILDER_KEY: Final = "principal.builder.class"
BUILDER_PREFIX: Final = "principal.builder."
SUPER_USERS: Final = "super.users"
ALLOWS_WITHOUT_LISTS: Final = "allow.everyone.if.no.acl.found"
"""Settings of the broker itself that authorizers may read as well."""


def find_authorizer(name: str, settings: Mapping[str, str]) -> "Authorizer[Any]":
    """Return an authorizer that is not started yet.

    Args:
        name: of its class.
        settings: that it may read: its own, which begin with `AUTHORIZER_PREFIX`, and those of the broker about
            rights; references to secrets are resolved.

    Raises:
        ConfigurationError: there is no such class, or its settings are wrong.
    """
    from ottla_sdk.broker import Authorizer  # noqa: PLC0415

    return _configured(AUTHORIZER_KEY, AUTHORIZER_PREFIX, name, Authorizer, settings)  # type: ignore[type-abstract]


def find_principal_builder(name: str, settings: Mapping[str, str]) -> "PrincipalBuilder[Any]":
    """Return a builder of principals; its own settings begin with `BUILDER_PREFIX`.

    Raises:
        ConfigurationError: there is no such class, or its settings are wrong.
    """
    from ottla_sdk.broker import PrincipalBuilder  # noqa: PLC0415

    return _configured(BUILDER_KEY, BUILDER_PREFIX, name, PrincipalBuilder, settings)  # type: ignore[type-abstract]


def _configured(key: str, prefix: str, name: str, kind: "type[PluginT]", settings: Mapping[str, str]) -> "PluginT":
    from ottla_broker.client_plugins import own_classes  # noqa: PLC0415
    from ottla_sdk.errors import ConnectError  # noqa: PLC0415
    from ottla_sdk.runtime.plugin_lookup import BROKER_HOOKS, PluginLookup, classes_of  # noqa: PLC0415

    lookup = PluginLookup(BROKER_HOOKS, own=classes_of(own_classes, BROKER_HOOKS))
    try:
        found = lookup.find(name, kind)
        known = found.config_model.keys()
        if unknown := sorted(each for each in settings if each.startswith(prefix) and each not in known):
            of_it = ", ".join(each for each in known if each.startswith(prefix)) or "none"
            raise ConfigurationError(f"{', '.join(unknown)}: no setting of {name}; it has: {of_it}")
        made = found()
        made.configure(settings)
    except ConnectError as error:
        raise ConfigurationError(f"{key}: {error}") from error
    return made
