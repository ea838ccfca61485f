"""Which columns a table of records has."""

from ottla_operations.queries.record_columns import COLUMNS_MAX, field_columns, merged, quoted


def test_fields_become_columns_with_their_types() -> None:
    parted = field_columns({"flight": "VARCHAR", "delay": "UBIGINT", "share": "DOUBLE", "late": "BOOLEAN"})
    assert parted.structure == {"flight": "VARCHAR", "delay": "BIGINT", "share": "DOUBLE", "late": "BOOLEAN"}
    assert parted.columns == [(each, each) for each in ("flight", "delay", "share", "late")]
    assert parted.left_out == 0


def test_whole_numbers_are_signed_and_larger_where_that_is_needed() -> None:
    structure = {"a": "UBIGINT", "b": ["HUGEINT"], "c": {"d": "BIGINT"}}
    assert field_columns(structure).structure == {"a": "BIGINT", "b": ["BIGINT"], "c": {"d": "BIGINT"}}
    assert field_columns(structure, whole_number="HUGEINT").structure["a"] == "HUGEINT"


def test_a_field_named_as_a_column_of_records_gets_another_name() -> None:
    parted = field_columns({"Key": "VARCHAR", "value_key": "VARCHAR", "offset": "UBIGINT"})
    assert parted.columns == [("value_Key", "Key"), ("value_value_key", "value_key"), ("value_offset", "offset")]


def test_fields_that_differ_by_upper_case_alone_are_left_out_and_counted() -> None:
    parted = field_columns({"a": "VARCHAR", "A": "UBIGINT", "": "VARCHAR", "x\0y": "VARCHAR"})
    assert parted.columns == [("a", "a")]
    assert parted.left_out == 3


def test_there_are_only_so_many_columns() -> None:
    parted = field_columns({f"f{number}": "VARCHAR" for number in range(1000)})
    assert len(parted.columns) == COLUMNS_MAX
    assert parted.left_out == 1000 - COLUMNS_MAX


def test_what_is_nested_keeps_its_structure_unless_it_is_too_large_too_deep_or_has_names_that_clash() -> None:
    deep: object = "VARCHAR"
    for _ in range(20):
        deep = {"d": deep}
    parted = field_columns(
        {
            "legs": [{"from": "VARCHAR", "n": "UBIGINT"}],
            "none": "NULL",
            "empty": [],
            "nothing": {},
            "deep": deep,
            "wide": {f"f{number}": "VARCHAR" for number in range(500)},
            "clash": {"a": "VARCHAR", "A": "VARCHAR"},
        }
    )
    assert parted.structure == {
        "legs": [{"from": "VARCHAR", "n": "BIGINT"}],
        "none": "JSON",
        "empty": ["JSON"],
        "nothing": "JSON",
        "deep": "JSON",
        "wide": "JSON",
        "clash": "JSON",
    }


def test_values_without_fields_have_no_columns() -> None:
    assert field_columns(None).columns == []
    assert field_columns("VARCHAR").columns == []


def test_names_are_quoted() -> None:
    assert quoted('a"b') == '"a""b"'


def test_structures_of_parts_are_merged_to_what_holds_for_all() -> None:
    one = {
        "n": "UBIGINT",
        "x": "UBIGINT",
        "same": "VARCHAR",
        "mixed": "VARCHAR",
        "none": "NULL",
        "in": {"a": "BOOLEAN"},
    }
    other = {
        "n": "BIGINT",
        "x": "DOUBLE",
        "same": "VARCHAR",
        "mixed": ["VARCHAR"],
        "none": "BIGINT",
        "in": {"b": "NULL"},
    }
    assert merged(one, other) == {
        "n": "HUGEINT",
        "x": "DOUBLE",
        "same": "VARCHAR",
        "mixed": "JSON",
        "none": "BIGINT",
        "in": {"a": "BOOLEAN", "b": "NULL"},
    }
    assert merged([], ["VARCHAR"]) == merged(["VARCHAR"], []) == ["VARCHAR"]
    assert merged([{"a": "VARCHAR"}], [{"b": "VARCHAR"}]) == [{"a": "VARCHAR", "b": "VARCHAR"}]
    assert merged(None, one) == merged(one, None) == merged("NULL", one) == one
