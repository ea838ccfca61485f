"""Tests of converters: what goes into a topic comes out again, and what does not fit is a `DataError`."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import pytest

from ottla_sdk.conformance.plugin_suite import BadSettings, PluginSuite, Settings, make_suite
from ottla_sdk.converter import NO_VALUE, Converter, Role, SchemaAndValue
from ottla_sdk.errors import DataError
from ottla_sdk.records import Header
from ottla_sdk.schema import Schema

TOPIC = "conformance"


class ConverterSuite(PluginSuite):
    """The suite; `converter_suite` makes one for a class.

    Attributes:
        plugin: the converter's class.
        values: values and their schemas that come out as they went in.
        unfitting: values and their schemas that it cannot write.
        damaged: bytes that it cannot read.
        roles: what it can be used for.
        keeps_schemas: whether schemas come out again too.
    """

    plugin: ClassVar[type[Converter[Any]]]
    values: ClassVar[Sequence[tuple[Schema | None, Any]]]
    unfitting: ClassVar[Sequence[tuple[Schema | None, Any]]]
    damaged: ClassVar[Sequence[bytes]]
    roles: ClassVar[Sequence[Role]]
    keeps_schemas: ClassVar[bool]

    def test_values_come_out_as_they_went_in(self, settings: dict[str, str]) -> None:
        """As keys, as values and as headers; another converter reads what one has written."""
        for role in self.roles:
            writer, reader = self._converter(settings, role), self._converter(settings, role)
            for schema, value in self.values:
                if role is Role.HEADER:
                    data = writer.serialize_header(TOPIC, Header("header", value, schema))
                    self._expect_same(reader.deserialize_header(TOPIC, "header", data), schema, value)
                else:
                    data = writer.serialize(TOPIC, schema, value)
                    assert data is None or isinstance(data, bytes)
                    self._expect_same(reader.deserialize(TOPIC, data), schema, value)

    def test_a_tombstone_stays_one(self, settings: dict[str, str]) -> None:
        """No bytes are no value."""
        for role in self.roles:
            converter = self._converter(settings, role)
            assert converter.deserialize(TOPIC, None).value is None
            assert converter.deserialize(TOPIC, converter.serialize(TOPIC, *NO_VALUE)).value is None

    def test_what_does_not_fit_is_refused(self, settings: dict[str, str]) -> None:
        """With a `DataError` that says something."""
        converter = self._converter(settings, Role.VALUE)
        for schema, value in self.unfitting:
            with pytest.raises(DataError) as refused:
                converter.serialize(TOPIC, schema, value)
            assert str(refused.value), "the error says nothing"

    def test_damaged_bytes_are_refused(self, settings: dict[str, str]) -> None:
        """With a `DataError` that says something."""
        converter = self._converter(settings, Role.VALUE)
        for data in self.damaged:
            with pytest.raises(DataError) as refused:
                converter.deserialize(TOPIC, data)
            assert str(refused.value), "the error says nothing"

    def test_values_are_not_changed(self, settings: dict[str, str]) -> None:
        """The caller may still need them."""
        converter = self._converter(settings, Role.VALUE)
        for schema, value in self.values:
            before = deepcopy(value)
            converter.serialize(TOPIC, schema, value)
            assert value == before

    def test_close_may_come_again(self, settings: dict[str, str]) -> None:
        """Twice, and before any value."""
        converter = self._converter(settings, Role.VALUE)
        converter.close()
        converter.close()

    def _converter(self, settings: Mapping[str, str], role: Role) -> Converter[Any]:
        converter = self.plugin()
        converter.role = role
        converter.configure(settings)
        converter.start()
        return converter

    def _expect_same(self, found: SchemaAndValue, schema: Schema | None, value: Any) -> None:
        assert found.value == value
        assert type(found.value) is type(value)
        if self.keeps_schemas:
            assert found.schema == schema


def converter_suite(
    converter: type[Converter[Any]],
    *,
    settings: Settings,
    values: Sequence[tuple[Schema | None, Any]],
    unfitting: Sequence[tuple[Schema | None, Any]] = (),
    damaged: Sequence[bytes] = (),
    roles: Sequence[Role] = tuple(Role),
    keeps_schemas: bool = True,
    bad_settings: BadSettings = (),
    is_installed: bool = True,
) -> type[ConverterSuite]:
    """Return the suite for a converter; give it a name that begins with ``Test``.

    Args:
        converter: the class.
        settings: valid settings, or a function of a fresh directory that returns some.
        values: pairs of schema and value that come out as they went in.
        unfitting: pairs that it cannot write.
        damaged: bytes that it cannot read.
        roles: what it can be used for.
        keeps_schemas: whether schemas come out again too.
        bad_settings: changes to the settings, each with the keys that must be named as at fault.
        is_installed: whether the plugin's distribution is installed.
    """
    assert values, "there is nothing to show without a value"
    return make_suite(
        ConverterSuite,
        converter,
        left_out=[] if is_installed else ["test_an_entry_point_declares_the_class"],
        valid_settings=settings,
        bad_settings=bad_settings,
        values=values,
        unfitting=unfitting,
        damaged=damaged,
        roles=roles,
        keeps_schemas=keeps_schemas,
    )
