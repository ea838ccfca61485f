"""Finds the plan for each record: looks at its shape, prepares its table, and compiles the statement.

Plans are kept by shape. Comparing schemas costs more than writing a row, so a plan is first looked for by the
identity of a record's schemas.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Engine

from ottla_sdk import DataError, Schema, SinkRecord, Type
from ottla_sdk import schema as connect
from ottla_sql.sink.column_specs import ColumnSpec
from ottla_sql.sink.compiled_statements import Row, Write, delete_statement, write_statement
from ottla_sql.sink.config import KAFKA_COLUMNS, PrimaryKeyMode, SqlSinkConfig
from ottla_sql.sink.key_equality import Same, key_equality
from ottla_sql.sink.row_plan import Conversion, RowPlan, RowsOf, fields, fields_of_values, key_and_fields
from ottla_sql.sink.tables import TableName, Tables, TargetTable, table_name
from ottla_sql.sink.values import value_conversion

PLANS_MAX = 1_000
"""Shapes that are remembered; then all are forgotten, for shapes without schemas may be endless."""
SAMPLES_MAX = 1_000
"""Records of which values are looked at, to find the type of a new column without a schema."""

_Shape = tuple[str, Schema | tuple[str, ...] | None, Schema | tuple[str, ...] | None]


class Planner:
    """Finds plans for the records of one task."""

    def __init__(self, engine: Engine, config: SqlSinkConfig) -> None:
        self._engine = engine
        self._config = config
        self._tables = Tables(engine, config)
        self._plans: dict[_Shape, RowPlan] = {}
        self._by_identity: dict[tuple[str, int, int, bool], tuple[SinkRecord, RowPlan]] = {}
        self._writes: dict[tuple[Any, ...], Write] = {}

    def forget(self) -> None:
        """Look at all tables anew: somebody may have changed them."""
        self._tables.forget()
        self._plans.clear()
        self._by_identity.clear()
        self._writes.clear()

    def plan(self, record: SinkRecord, neighbours: Sequence[SinkRecord]) -> RowPlan | None:
        """Return the plan for a record; None if there is nothing to do for it.

        Args:
            record: the record.
            neighbours: others, whose values may tell the type of a column for which this one has none.

        Raises:
            DataError: the record cannot become a row.
            FatalError: its table does not exist.
            RetriableError: the database cannot be reached now.
        """
        value_schema, key_schema = record.value_schema, record.key_schema
        if value_schema is None or (key_schema is None and isinstance(record.key, dict)):
            return self._plan_by_shape(record, neighbours)
        identity = (record.topic, id(value_schema), id(key_schema), record.value is None)
        known = self._by_identity.get(identity)
        # The record is kept with the plan, so no other schemas can have the ids of its own.
        if known is not None:
            return known[1]
        plan = self._plan_by_shape(record, neighbours)
        if plan is not None:
            if len(self._by_identity) >= PLANS_MAX:
                self._by_identity.clear()
            self._by_identity[identity] = (record, plan)
        return plan

    def _plan_by_shape(self, record: SinkRecord, neighbours: Sequence[SinkRecord]) -> RowPlan | None:
        key, value = record.key, record.value
        shape = (
            record.topic,
            None if key is None else _shape(record.key_schema, key),
            None if value is None else _shape(record.value_schema, value),
        )
        plan = self._plans.get(shape)
        if plan is not None:
            return plan
        plan, complete = self._make(record, neighbours)
        if plan is not None and complete:
            if len(self._plans) >= PLANS_MAX:
                self.forget()
            self._plans[shape] = plan
        return plan

    def _make(self, record: SinkRecord, neighbours: Sequence[SinkRecord]) -> tuple[RowPlan | None, bool]:
        """Return a plan, and whether it holds for all records of the shape."""
        name = table_name(self._config.table_name_format, record.topic, self._engine.dialect.name)
        key = self._key_specs(record)
        if record.value is None:
            return self._make_delete(record, name, key), True
        known = {spec.name for spec in key}
        others = [spec for spec in self._value_specs(record) if spec.name not in known]
        specs, complete = self._with_samples([*key, *others], name, record.topic, neighbours)
        table = self._tables.get(name, specs, [spec.name for spec in key])
        written = {spec.name for spec in specs}
        others = [spec for spec in others if spec.name in written]
        columns = {spec.name: self._spelled(table, spec.name) for spec in specs}
        write = self._write(table, [columns[spec.name] for spec in key], [columns[spec.name] for spec in others])
        plan = RowPlan(
            table=str(name),
            deletes=False,
            key=[spec.name for spec in key],
            rows_of=self._rows_of(record, key, others),
            conversions=self._conversions(table, [*key, *others]),
            same=self._same(table, key),
            write=write,
        )
        return plan, complete

    def _make_delete(self, record: SinkRecord, name: TableName, key: Sequence[ColumnSpec]) -> RowPlan | None:
        if not self._config.delete_enabled:
            raise DataError("the record has no value; set delete.enabled=true for such records to delete rows")
        table = self._tables.find(name)
        if table is None and self._config.auto_create:
            return None  # what does not exist has no rows to delete
        names = [spec.name for spec in key]
        table = self._tables.get(name, key, names)
        columns = [self._spelled(table, each) for each in names]
        write = delete_statement(self._engine.dialect, table, columns, self._config.quotes)
        key_of = self._key_of(record, names)
        return RowPlan(
            str(name),
            True,
            names,
            lambda records: [key_of(each) for each in records],
            self._conversions(table, key),
            self._same(table, key),
            write,
        )

    def _write(self, table: TargetTable, key: Sequence[str], others: Sequence[str]) -> Write:
        identity = (table.name, tuple(key), tuple(others))
        write = self._writes.get(identity)
        if write is None:
            write = self._writes[identity] = write_statement(
                self._engine.dialect,
                self._config.insert_mode,
                table,
                key=key,
                others=others,
                quote=self._config.quotes,
            )
        return write

    def _key_specs(self, record: SinkRecord) -> list[ColumnSpec]:
        mode, names = self._config.pk_mode, self._config.pk_fields
        if mode is PrimaryKeyMode.NONE:
            return []
        if mode is PrimaryKeyMode.KAFKA:
            schemas = (connect.STRING, connect.INT32, connect.INT64)
            return [ColumnSpec(*each) for each in zip(names or KAFKA_COLUMNS, schemas, strict=True)]
        if mode is PrimaryKeyMode.RECORD_HEADER:
            headers = {header.key: header for header in record.headers}
            if missing := [name for name in names if name not in headers]:
                raise DataError(f"the record has no header {', '.join(missing)}, which pk.fields names")
            return [ColumnSpec(name, headers[name].schema, headers[name].value) for name in names]
        if mode is PrimaryKeyMode.RECORD_KEY:
            return self._record_key_specs(record, names)
        if record.value is None:
            raise DataError("the record has no value, of which pk.mode=record_value needs fields")
        return _chosen(_field_specs(record.value_schema, record.value, "value"), names or None, "value")

    def _record_key_specs(self, record: SinkRecord, names: Sequence[str]) -> list[ColumnSpec]:
        if record.key is None:
            raise DataError("the record has no key, which pk.mode=record_key needs")
        schema = record.key_schema
        if isinstance(record.key, dict) and (schema is None or schema.type is Type.STRUCT):
            return _chosen(_field_specs(schema, record.key, "key"), names or None, "key")
        if len(names) != 1:
            raise DataError("the record's key is no struct: pk.fields must name the one column for it")
        return [ColumnSpec(names[0], schema, record.key)]

    def _value_specs(self, record: SinkRecord) -> list[ColumnSpec]:
        specs = _field_specs(record.value_schema, record.value, "value")
        allowed = self._config.fields_whitelist
        return [spec for spec in specs if spec.name in allowed] if allowed else specs

    def _with_samples(
        self, specs: Sequence[ColumnSpec], name: TableName, topic: str, neighbours: Sequence[SinkRecord]
    ) -> tuple[list[ColumnSpec], bool]:
        """Return specs for columns that exist or whose type is known, and whether that is all of them."""
        table = self._tables.find(name) if any(spec.schema is None for spec in specs) else None
        found, complete = [], True
        for each in specs:
            spec = each
            if spec.schema is None and (table is None or table.spelled(spec.name) is None):
                sample = _sample(spec, topic, neighbours)
                if sample is None and self._config.auto_evolve:
                    complete = False  # the column is added as soon as there is a value, and so a type
                    continue
                spec = ColumnSpec(spec.name, None, sample)
            found.append(spec)
        return found, complete

    def _spelled(self, table: TargetTable, name: str) -> str:
        spelled = table.spelled(name)
        assert spelled is not None, f"table {table.name} was prepared without {name}"
        return spelled

    def _conversions(self, table: TargetTable, specs: Sequence[ColumnSpec]) -> list[Conversion]:
        conversions = []
        for place, spec in enumerate(specs):
            column = table.columns[self._spelled(table, spec.name)]
            convert, fit = value_conversion(column, spec.schema, self._engine.dialect.name, self._config.timezone)
            default = spec.schema.default if spec.schema is not None and spec.schema.has_default else None
            if convert is not None or default is not None:
                conversions.append(Conversion(place, spec.name, convert or _unchanged, fit, default))
        return conversions

    def _same(self, table: TargetTable, key: Sequence[ColumnSpec]) -> list[Same]:
        names = [self._spelled(table, spec.name) for spec in key]
        dialect = self._engine.dialect.name
        return [key_equality(table.columns[name], dialect, is_plain_text=name in table.plain_text) for name in names]

    def _rows_of(self, record: SinkRecord, key: Sequence[ColumnSpec], others: Sequence[ColumnSpec]) -> RowsOf:
        names = [spec.name for spec in others]
        keys = [spec.name for spec in key]
        if self._config.pk_mode in (PrimaryKeyMode.NONE, PrimaryKeyMode.RECORD_VALUE):
            return fields_of_values([*keys, *names])
        return key_and_fields(self._key_of(record, keys), names)

    def _key_of(self, record: SinkRecord, names: Sequence[str]) -> Callable[[SinkRecord], Row]:
        if self._config.pk_mode is PrimaryKeyMode.KAFKA:
            return lambda each: (each.original_topic, each.original_partition, each.offset)
        if self._config.pk_mode is PrimaryKeyMode.RECORD_HEADER:
            take = fields(names)
            return lambda each: take({header.key: header.value for header in each.headers})
        if isinstance(record.key, dict):
            take = fields(names)
            return lambda each: take(each.key or {})
        return lambda each: (each.key,)


def _unchanged(value: Any) -> Any:
    return value


def _shape(schema: Schema | None, value: Any) -> Schema | tuple[str, ...] | None:
    if schema is not None:
        return schema
    return tuple(value) if isinstance(value, dict) else (type(value).__name__,)


def _field_specs(schema: Schema | None, value: Any, what: str) -> list[ColumnSpec]:
    if not isinstance(value, dict) or (schema is not None and schema.type is not Type.STRUCT):
        kind = type(value).__name__ if schema is None else schema.type
        raise DataError(f"the record's {what} is no struct but {kind}: there are no columns for it")
    if schema is not None:
        return [ColumnSpec(each.name, each.schema) for each in schema.fields]
    return [ColumnSpec(str(name), None, found) for name, found in value.items()]


def _chosen(specs: Iterable[ColumnSpec], names: Sequence[str] | None, what: str) -> list[ColumnSpec]:
    if names is None:
        return list(specs)
    by_name: Mapping[str, ColumnSpec] = {spec.name: spec for spec in specs}
    if missing := [name for name in names if name not in by_name]:
        raise DataError(f"the record's {what} has no field {', '.join(missing)}, which pk.fields names")
    return [by_name[name] for name in names]


def _sample(spec: ColumnSpec, topic: str, neighbours: Sequence[SinkRecord]) -> Any:
    """Return a value whose type can hold those that are at hand; None if there is none."""
    found = [] if spec.sample is None else [spec.sample]
    for record in neighbours[:SAMPLES_MAX]:
        if record.topic == topic and isinstance(record.value, dict):
            value = record.value.get(spec.name)
            if value is not None:
                found.append(value)
    kinds = {type(each) for each in found}
    if len(kinds) <= 1:
        return found[0] if found else None
    if kinds <= {int, float}:
        return next(each for each in found if isinstance(each, float))
    if kinds <= {dict, list}:
        return found[0]
    return ""  # text can hold anything
