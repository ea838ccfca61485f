"""Config providers: where a configuration's `${provider:path:key}` come from, so that it need not hold secrets."""

from abc import abstractmethod
from typing import Generic

from ottla_sdk.plugin import ConfigT, Plugin


class ConfigProvider(Plugin[ConfigT], Generic[ConfigT]):
    """Looks up values, for example in files.

    A worker that says `config.providers=secrets` and `config.providers.secrets.class=…` lets connectors write
    `${secrets:path:key}`, or `${secrets:key}` where a provider has no paths. Settings with the prefix
    `config.providers.secrets.param.` are its configuration.
    """

    @abstractmethod
    def get(self, path: str, key: str) -> str:
        """Return a value.

        Args:
            path: such as a file; empty if the reference has none.
            key: the name within it.

        Raises:
            FatalError: there is no such value; the message must not show other values.
            RetriableError: it cannot be looked up now.
        """

    def close(self) -> None:
        """Give back what was opened."""
