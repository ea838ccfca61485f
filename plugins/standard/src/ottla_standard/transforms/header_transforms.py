"""Transforms of headers alone: DropHeaders and InsertHeader. Pure."""

from collections.abc import Mapping

from ottla_sdk import ConnectRecord, Header, Importance, PluginConfig, Transform, setting
from ottla_sdk.config import CommaSeparated
from ottla_standard.converters.header_text import from_text
from ottla_standard.transforms.part import java_names


class DropHeadersConfig(PluginConfig):
    """Settings of `DropHeaders`."""

    headers: CommaSeparated = setting(
        "headers", doc="Names of the headers to remove.", importance=Importance.HIGH, min_length=1
    )


class DropHeaders(Transform[DropHeadersConfig]):
    """Removes headers."""

    config_model = DropHeadersConfig
    aliases = java_names("DropHeaders")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record without the headers of these names."""
        kept = tuple(each for each in record.headers if each.key not in self.config.headers)
        return record if len(kept) == len(record.headers) else record.replaced(headers=kept)


class InsertHeaderConfig(PluginConfig):
    """Settings of `InsertHeader`."""

    header: str = setting("header", doc="Name of the header.", importance=Importance.HIGH)
    value_literal: str = setting(
        "value.literal",
        doc="Its value, for all records. Numbers, booleans, arrays, maps, dates and times are taken as such, as by "
        "the SimpleHeaderConverter.",
        importance=Importance.HIGH,
    )


class InsertHeader(Transform[InsertHeaderConfig]):
    """Adds a header with the same value to each record."""

    config_model = InsertHeaderConfig
    aliases = java_names("InsertHeader")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        schema, value = from_text(self.config.value_literal)
        self._header = Header(self.config.header, value, schema)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Return the record with the header behind those it has."""
        return record.replaced(headers=(*record.headers, self._header))
