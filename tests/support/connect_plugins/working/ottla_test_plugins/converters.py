"""A converter that is easy to tell from others."""

from collections.abc import Sequence
from typing import Any

from ottla_sdk import Converter, DataError, Header, PluginConfig, Schema, SchemaAndValue


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
