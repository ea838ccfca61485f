"""What every kind of plugin class has in common."""

from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from ottla_sdk.config import PluginConfig

ConfigT = TypeVar("ConfigT", bound=PluginConfig)


class Plugin(Generic[ConfigT]):
    """Base of all that plugins bring: connectors, tasks, transforms, converters, filters of mirrors, authorizers.

    The runtime makes an instance without arguments, calls `configure`, and then the methods of the kind.

    Attributes:
        config_model: the model of its configuration.
        version: its version; empty means that of the distribution it comes in.
        aliases: other names under which configurations may ask for it, such as a Java class's name.
        config: its configuration, valid.
        settings: the same as users wrote it, with secrets filled in.
    """

    config_model: ClassVar[type[PluginConfig]] = PluginConfig
    version: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()

    config: ConfigT
    settings: Mapping[str, str]

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings.

        Raises:
            InvalidConfig: lists everything that is wrong with them.
        """
        self.settings = settings
        self.config = self.config_model.parse(settings)  # type: ignore[assignment]


def class_name(plugin: type[Any]) -> str:
    """Return the full name of a plugin class: its public module and its name, such as ``ottla_file.FileSource``."""
    return f"{plugin.__module__}.{plugin.__qualname__}"
