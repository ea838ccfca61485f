"""The config providers of Kafka: environment variables, properties files, and directories of files."""

import os
import re

from ottla_sdk import ConfigProvider, FatalError, PluginConfig, setting
from ottla_sdk.runtime.java_properties import parse_properties
from ottla_standard.config_providers.allowed_paths import AllowedPathsConfig
from ottla_standard.java_regex import JavaPattern

_JAVA_PACKAGE = "org.apache.kafka.common.config.provider."
FILE_BYTES_MAX = 1024 * 1024
"""Larger files hold no settings; somebody named the wrong one."""


class EnvVarConfig(PluginConfig):
    """Settings of `EnvVarConfigProvider`."""

    allowlist_pattern: JavaPattern = setting(
        "allowlist.pattern",
        re.compile(".*"),
        doc="A regular expression that the whole name of a variable must match, or the variable is not to be read.",
    )


class EnvVarConfigProvider(ConfigProvider[EnvVarConfig]):
    """Reads environment variables of the worker: `${env:NAME}`."""

    config_model = EnvVarConfig
    aliases = (_JAVA_PACKAGE + "EnvVarConfigProvider",)

    def get(self, path: str, key: str) -> str:
        """Return the value of a variable."""
        if path:
            raise FatalError(f"environment variables have no path: write ${{env:{key}}}, not ${{env:{path}:{key}}}")
        if self.config.allowlist_pattern.fullmatch(key) is None:
            raise FatalError(f"the environment variable {key} is not allowed by allowlist.pattern")
        value = os.environ.get(key)
        if value is None:
            raise FatalError(f"there is no environment variable {key}")
        return value


class FileConfigProvider(ConfigProvider[AllowedPathsConfig]):
    """Reads values from properties files: `${file:/path/to/secrets.properties:key}`."""

    config_model = AllowedPathsConfig
    aliases = (_JAVA_PACKAGE + "FileConfigProvider",)

    def get(self, path: str, key: str) -> str:
        """Return the value of a key in a properties file."""
        found = parse_properties(_read(self.config, path))
        if key not in found:
            raise FatalError(f"there is no {key} in {path}")
        return found[key]


class DirectoryConfigProvider(ConfigProvider[AllowedPathsConfig]):
    """Reads files whose content is the value: `${dir:/path/to/secrets:file-name}`."""

    config_model = AllowedPathsConfig
    aliases = (_JAVA_PACKAGE + "DirectoryConfigProvider",)

    def get(self, path: str, key: str) -> str:
        """Return the content of a file in a directory."""
        if not key or "/" in key or key in (".", ".."):
            raise FatalError(f"{key!r} is no name of a file in {path}")
        self.config.resolved(path)
        return _read(self.config, f"{path}/{key}")


def _read(config: AllowedPathsConfig, path: str) -> str:
    file = config.resolved(path)
    try:
        if not file.is_file():
            raise FatalError(f"{path} is no file")
        with file.open("rb") as opened:
            content = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise FatalError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise FatalError(f"{path} has more than {FILE_BYTES_MAX} bytes: it holds no settings")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise FatalError(f"{path} is not text in UTF-8") from None
