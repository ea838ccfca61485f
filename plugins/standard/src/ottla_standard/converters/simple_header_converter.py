"""Headers as text whose type is guessed when it is read."""

import logging
from collections.abc import Sequence
from typing import Any

from ottla_sdk import NO_VALUE, Converter, Header, PluginConfig, Schema, SchemaAndValue
from ottla_sdk.schema import BYTES
from ottla_standard.converters import header_text

_logger = logging.getLogger(__name__)


class SimpleHeaderConverter(Converter[PluginConfig]):
    """Writes text; reads numbers, booleans, arrays, maps, dates and times from what looks like them."""

    aliases = ("org.apache.kafka.connect.storage.SimpleHeaderConverter",)

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return the text of a value."""
        return None if value is None else header_text.to_text(value).encode()

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return what the text seems to say; bytes that are no text stay bytes."""
        return self.deserialize_header(topic, "", data)

    def deserialize_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        """Return what the text of a header seems to say; bytes that are no text stay bytes."""
        if data is None:
            return NO_VALUE
        try:
            return header_text.from_text(data.decode())
        except (UnicodeDecodeError, RecursionError):
            _logger.debug("The header %r of a record of %s is no text: it stays bytes.", key, topic)
            return SchemaAndValue(BYTES, data)
