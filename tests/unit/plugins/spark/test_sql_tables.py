"""What `CREATE TABLE … WITH (…)` declares."""

import pytest

from ottla_spark.formats.format import Format
from ottla_spark.sql.sql_errors import SqlProblem
from ottla_spark.sql.statement_kinds import Declare
from ottla_spark.sql.tables import declared_table, topic_table


def test_a_topic_that_nothing_is_declared_about_is_read_as_json_whose_columns_are_to_be_found() -> None:
    table = topic_table("flights", "flights")
    assert (table.topic, table.key.name, table.value.name) == ("flights", "string", "json")
    assert table.unknown_parts == ("value",)


def test_what_a_sample_tells_becomes_a_setting() -> None:
    table = topic_table("Flights", "flights").with_part("value", Format(name="json", schema="carrier STRING"))
    assert table.settings == {"topic": "flights", "value.format": "json", "value.schema": "carrier STRING"}
    assert table.unknown_parts == ()


def test_a_topic_is_by_default_the_one_of_the_tables_name() -> None:
    table = declared_table(Declare("flights", "carrier STRING"))
    assert table.settings == {"topic": "flights", "value.schema": "carrier STRING"}
    assert table.value == Format(name="json", schema="carrier STRING")


def test_keys_of_settings_are_known_in_any_case_and_options_of_spark_keep_theirs() -> None:
    table = declared_table(
        Declare("x", settings={"TOPIC": "t", "Value.Format": "string", "Options.minPartitions": "4"})
    )
    assert table.settings == {"topic": "t", "value.format": "string", "options.minPartitions": "4"}


def test_a_path_without_a_format_is_parquet() -> None:
    table = declared_table(Declare("x", settings={"path": "/data"}))
    assert (table.config.format, table.is_topic, table.topic, table.unknown_parts) == ("parquet", False, "", ())


def test_columns_of_files_are_their_schema() -> None:
    table = declared_table(Declare("x", "a INT", {"path": "/data", "format": "csv"}))
    assert table.settings == {"path": "/data", "format": "csv", "schema": "a INT"}


def test_keys_and_values_with_fields_need_a_schema_that_is_given_or_found() -> None:
    table = declared_table(Declare("x", settings={"key.format": "json", "value.format": "bytes"}))
    assert table.unknown_parts == ("key",)
    found = table.with_part("key", Format(name="json", schema="id INT"))
    assert (found.key.schema, found.unknown_parts) == ("id INT", ())


def test_a_pattern_stands_for_its_topics() -> None:
    table = declared_table(Declare("x", "a INT", {"pattern": "flights-.*"}))
    assert (table.is_topic, table.topic, table.config.pattern) == (True, "", "flights-.*")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"topik": "t", "watermark": "time_hour"}, ["topik", "did you mean topic?", "watermark"]),
        ({"topic": "t", "path": "/data"}, ["format", "topic"]),
        ({"value.format": "xml"}, ["value.format", "json"]),
        (
            {"value.format": "avro"},
            ["in Avro follow from their schema", "value.schema.registry.url", "value.schema ="],
        ),
        ({"value.schema": "b INT"}, ["twice"]),
    ],
)
def test_all_that_is_wrong_with_a_declaration_is_said_at_once(settings: dict[str, str], said: list[str]) -> None:
    with pytest.raises(SqlProblem, match="table x") as raised:
        declared_table(Declare("x", "a INT", settings))
    assert all(each in str(raised.value) for each in said), raised.value
