"""What a format may be: everything wrong with one is said when it is made."""

import pytest

from ottla_sdk import InvalidConfig
from ottla_spark.formats.errors import UnusableFormat
from ottla_spark.formats.format import Format, check_columns


def problems(**fields: object) -> dict[str, str]:
    """The problems of a format, by attribute."""
    with pytest.raises(InvalidConfig) as caught:
        Format(**fields)  # type: ignore[arg-type]
    return {each.key: each.message for each in caught.value.problems}


def test_all_that_is_wrong_is_said_at_once() -> None:
    found = problems(name="xml", bad_records="ignore", sample_rows=0, registry_url="localhost:8081")
    assert list(found) == ["name", "bad_records", "sample_rows", "registry_url"]
    assert found["name"] == "'xml' is no format: one of json, avro, string, bytes"
    assert "fail, null, drop" in found["bad_records"]


@pytest.mark.parametrize("name", ["string", "bytes"])
def test_text_and_bytes_have_no_schema(name: str) -> None:
    assert "choose json or avro" in problems(name=name, schema="a INT")["schema"]


def test_only_avro_has_a_registry() -> None:
    assert "only avro does" in problems(name="json", registry_url="http://localhost:8081")["registry_url"]


@pytest.mark.parametrize("url", ["ftp://user:secret@host", "http://", "http://[half:secret@"])
def test_an_address_that_is_none_is_not_shown_for_it_may_hold_a_password(url: str) -> None:
    assert "secret" not in str(problems(name="avro", registry_url=url))


def test_an_avro_schema_is_checked_at_once() -> None:
    assert "no JSON" in problems(name="avro", schema="{")["schema"]


@pytest.mark.parametrize(
    ("fields", "needs_one"),
    [
        ({"name": "json"}, True),
        ({"name": "avro", "registry_url": "http://user:secret@localhost:8081"}, True),
        ({"name": "json", "schema": "a INT"}, False),
        ({"name": "avro", "schema": '"string"'}, False),
        ({"name": "string"}, False),
        ({"name": "bytes"}, False),
    ],
)
def test_a_schema_is_needed_where_fields_are_and_none_was_given(fields: dict[str, str], needs_one: bool) -> None:
    assert Format(**fields).needs_schema is needs_one  # type: ignore[arg-type]


def test_names_of_the_records_own_columns_are_kept_for_them() -> None:
    for name in ("_key", "_offset", "_id"):
        with pytest.raises(UnusableFormat, match=f"the schema of the value has a column {name}: .*_timestamp"):
            check_columns(["a", name], where="the schema of the value")


def test_names_that_are_the_same_to_spark_are_refused() -> None:
    with pytest.raises(UnusableFormat, match="the column A and a are the same to Spark"):
        check_columns(["a", "A"], where="the schema")
    with pytest.raises(UnusableFormat, match="the column a is there twice"):
        check_columns(["a", "a"], where="the schema", case_sensitive=True)
    check_columns(["a", "A"], where="the schema", case_sensitive=True)
