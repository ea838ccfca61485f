"""Text."""

import codecs
from collections.abc import Iterable, Sequence
from typing import Any

from ottla_sdk import Converter, DataError, Header, Importance, PluginConfig, Problem, Schema, SchemaAndValue, setting
from ottla_sdk.schema import STRING
from ottla_standard.converters.text_form import text_of

_OPTIONAL_STRING = STRING.as_optional()


class StringConverterConfig(PluginConfig):
    """Settings of `StringConverter`."""

    encoding: str = setting(
        "converter.encoding",
        "UTF-8",
        doc="The character encoding of the bytes, both ways; Python's and Java's usual names are known.",
        importance=Importance.HIGH,
    )

    def check(self) -> Iterable[Problem]:
        """Ask Python for the encoding."""
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            yield Problem("converter.encoding", f"unknown encoding {self.encoding!r}, such as UTF-8 or ISO-8859-1")


class StringConverter(Converter[StringConverterConfig]):
    """Text; whatever is not text is written as text, without its schema."""

    config_model = StringConverterConfig
    aliases = ("org.apache.kafka.connect.storage.StringConverter",)

    def serialize(
        self, topic: str, schema: Schema | None, value: Any, headers: Sequence[Header] = ()
    ) -> bytes | None:
        """Return the text of a value."""
        if value is None:
            return None
        text = value if isinstance(value, str) else text_of(schema, value)
        try:
            return text.encode(self.config.encoding)
        except UnicodeEncodeError as error:
            raise DataError(f"the text has a character that {self.config.encoding} has not: {error}") from None

    def deserialize(
        self, topic: str, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()
    ) -> SchemaAndValue:
        """Return the text."""
        if data is None:
            return SchemaAndValue(_OPTIONAL_STRING, None)
        try:
            return SchemaAndValue(_OPTIONAL_STRING, data.decode(self.config.encoding))
        except UnicodeDecodeError as error:
            raise DataError(f"not text in {self.config.encoding}: {error}") from None
