"""The worker's config providers: each is made when the first reference to it is resolved."""

import re
from collections.abc import Mapping
from typing import Any

from ottla_sdk.config_provider import ConfigProvider
from ottla_sdk.errors import ConnectError, FatalError, RetriableError
from ottla_sdk.runtime.plugin_lookup import PluginLookup
from ottla_sdk.runtime.redaction import Redaction
from ottla_sdk.runtime.references import Reference, has_reference, references, replaced

PROVIDERS_KEY = "config.providers"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
RESTORED_LENGTH_MIN = 8
"""Shorter values, such as `true` or a port, stand in settings that have nothing to do with the reference."""


class UnresolvedReference(FatalError):
    """A reference cannot be resolved; the message says which and why."""


class ProviderAway(RetriableError):
    """A reference cannot be resolved for now; the message says which and why."""


class ConfigProviders:
    """Resolves references in settings.

    Args:
        worker: the worker's settings: `config.providers`, and what is below it.
        lookup: finds the providers' classes.
        redaction: learns every value that was looked up.
    """

    def __init__(self, worker: Mapping[str, str], lookup: PluginLookup, redaction: Redaction) -> None:
        self._worker = worker
        self._lookup = lookup
        self._redaction = redaction
        self._names = {each.strip() for each in worker.get(PROVIDERS_KEY, "").split(",") if each.strip()}
        self._providers: dict[str, ConfigProvider[Any]] = {}
        self._values: dict[Reference, str] = {}

    def resolve(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Return settings with their references replaced; a reference to no known provider stays as it is.

        Raises:
            UnresolvedReference: a provider has no such value, or cannot be made.
            ProviderAway: it cannot say so at present.
        """
        return {
            key: replaced(value, self._value) if has_reference(value) else value for key, value in settings.items()
        }

    def resolve_worker_settings(self) -> dict[str, str]:
        """Return the worker's own settings with their references replaced."""
        return self.resolve({key: value for key, value in self._worker.items() if not key.startswith(PROVIDERS_KEY)})

    def problem(self, value: str) -> str | None:
        """Return why the references in a setting cannot be resolved, None if they can."""
        if unknown := [each for each in references(value) if self._is_to_nobody(each)]:
            known = ", ".join(sorted(self._names)) or "none"
            return (
                f"{_written(unknown[0])} refers to a config provider {unknown[0].provider}, which the worker does "
                f"not have; it has: {known} (see its setting {PROVIDERS_KEY})"
            )
        try:
            replaced(value, self._value)
        except (UnresolvedReference, ProviderAway) as error:
            return str(error)
        return None

    def restored(self, value: str) -> str:
        """Return a setting with references in place of the values that it contains, if they resolve to the same."""
        written = {found: _written(each) for each, found in self._values.items() if len(found) >= RESTORED_LENGTH_MIN}
        if not written:
            return value
        longest_first = "|".join(map(re.escape, sorted(written, key=len, reverse=True)))
        restored = re.sub(longest_first, lambda match: written[match[0]], value)
        return restored if replaced(restored, self._value) == value else value

    def close(self) -> None:
        """Give back what the providers have opened."""
        for provider in self._providers.values():
            provider.close()
        self._providers.clear()

    def _is_to_nobody(self, reference: Reference) -> bool:
        return reference.provider not in self._names and _NAME.fullmatch(reference.provider) is not None

    def _value(self, reference: Reference) -> str | None:
        if reference.provider not in self._names:
            return None
        if reference not in self._values:
            try:
                value = self._provider(reference.provider).get(reference.path, reference.key)
            except RetriableError as error:
                raise ProviderAway(f"{_written(reference)} cannot be resolved now: {error}") from error
            except ConnectError as error:
                raise UnresolvedReference(f"{_written(reference)} cannot be resolved: {error}") from error
            self._values[reference] = value
            self._redaction.add({_written(reference): value})
        return self._values[reference]

    def _provider(self, name: str) -> ConfigProvider[Any]:
        if name not in self._providers:
            prefix = f"{PROVIDERS_KEY}.{name}."
            class_name = self._worker.get(f"{prefix}class")
            if not class_name:
                raise UnresolvedReference(f"the worker's setting {prefix}class is missing")
            provider = self._lookup.find(class_name, ConfigProvider)()  # type: ignore[type-abstract]
            parameters = f"{prefix}param."
            provider.configure(
                {
                    key.removeprefix(parameters): value
                    for key, value in self._worker.items()
                    if key.startswith(parameters)
                }
            )
            self._providers[name] = provider
        return self._providers[name]


def _written(reference: Reference) -> str:
    path = f"{reference.path}:" if reference.path else ""
    return f"${{{reference.provider}:{path}{reference.key}}}"
