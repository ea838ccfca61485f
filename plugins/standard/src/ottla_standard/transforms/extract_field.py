"""ExtractField: one field in place of the whole. Pure."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ottla_sdk import ConnectRecord, DataError, Importance, Problem, Schema, SchemaAndValue, setting
from ottla_standard.transforms.field_path import field_at, parse_path, value_at, value_in_map
from ottla_standard.transforms.part import NullConfig, Part, PartTransform, java_names, require_map, require_struct

_UpperCase = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)
_PURPOSE = "extracting a field"


class ExtractFieldConfig(NullConfig):
    """Settings of ExtractField."""

    field: str = setting("field", doc="The field.")
    field_syntax_version: Annotated[Literal["V1", "V2"], _UpperCase] = setting(
        "field.syntax.version",
        "V1",
        doc="V1: the field's name. V2: a path of names with dots between them; a name that contains dots stands in "
        "backticks, such as `` `foo.bar`.baz ``.",
        importance=Importance.HIGH,
    )

    def check(self) -> Iterable[Problem]:
        """Parse the path."""
        try:
            if not parse_path(self.field, self.field_syntax_version):
                yield Problem("field", "must not be empty")
        except ValueError as error:
            yield Problem("field", str(error))


class ExtractField(PartTransform[ExtractFieldConfig]):
    """Puts one field in place of the whole."""

    config_model = ExtractFieldConfig

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings."""
        super().configure(settings)
        self._path = parse_path(self.config.field, self.config.field_syntax_version)

    def change(self, record: ConnectRecord, schema: Schema | None, value: Any) -> SchemaAndValue:
        """Return the field's schema and value; null stays null."""
        if schema is None:
            return SchemaAndValue(
                None, None if value is None else value_in_map(require_map(value, _PURPOSE), self._path)
            )
        field = field_at(schema, self._path)
        if field is None:
            raise DataError(f"there is no field {self.config.field!r} in the {self.part.value}'s schema")
        if value is None:
            return SchemaAndValue(field.schema, None)
        struct = require_struct(schema, value, _PURPOSE)
        return SchemaAndValue(
            field.schema, value_at(schema, struct, self._path, self.config.replace_null_with_default)
        )


class ExtractFieldKey(ExtractField):
    """Puts one field of the key in place of the whole key."""

    part = Part.KEY
    aliases = java_names("ExtractField$Key")


class ExtractFieldValue(ExtractField):
    """Puts one field of the value in place of the whole value."""

    part = Part.VALUE
    aliases = java_names("ExtractField$Value")
