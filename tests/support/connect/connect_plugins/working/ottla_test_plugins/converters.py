"""A converter that is easy to tell from others, and one that fails as it is told to."""

from collections.abc import Sequence
from typing import Any

from ottla_sdk import Converter, DataError, Header, PluginConfig, Schema, SchemaAndValue
from ottla_test_plugins.faults import FaultConfig, Faults


class ReversedText(Converter[PluginConfig]):
    """Text, written backwards."""

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        return None if value is None else str(value)[::-1].encode()

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        try:
            return SchemaAndValue(None, None if data is None else data.decode()[::-1])
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8: {error}") from None


class FaultyText(Converter[FaultConfig]):
    """Text; `fault.where` is serialize or deserialize, which ask a registry in converters that have one."""

    config_model = FaultConfig

    def start(self) -> None:
        self._faults = Faults(self.config)

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        self._faults.at("serialize")
        return None if value is None else str(value).encode()

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        self._faults.at("deserialize")
        return SchemaAndValue(None, None if data is None else data.decode())
