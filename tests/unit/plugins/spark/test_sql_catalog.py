"""What the data source is asked for when a statement names a topic."""

import json
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

from ottla_spark.formats.format import Format
from ottla_spark.formats.sampling import Sample
from ottla_spark.sql import catalog as catalog_module
from ottla_spark.sql.catalog import SLICE_OPTION, Catalog
from ottla_spark.sql.statement_kinds import Declare
from ottla_spark.sql.tables import declared_table

TEXT = {"key.format": "string", "value.format": "string"}


class UnknownTable(AnalysisException):
    """What Spark raises of a name that it does not know."""

    def __init__(self) -> None:
        super().__init__("there is no flights")

    def getCondition(self) -> str:  # noqa: N802 - Spark's name
        return catalog_module.UNKNOWN_TABLE

    def getMessageParameters(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        return {"relationName": "`flights`"}


@pytest.fixture
def spark() -> MagicMock:
    """A session that knows no name until there is a view of it."""
    session = MagicMock()
    session.sql.side_effect = [UnknownTable(), MagicMock()]
    return session


@pytest.fixture
def first_records(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    """The records that a plain SELECT is answered with; none, so that Spark reads."""
    asked = MagicMock(return_value=None)
    sample = Sample(topics=("flights",), keys=(), values=(), mean_bytes=100)
    monkeypatch.setattr(catalog_module, "latest_records", lambda *_: sample)
    monkeypatch.setattr(catalog_module, "first_records", asked)
    monkeypatch.setattr(catalog_module, "decoded", lambda frame, **_: frame)
    return asked


def options_for(spark: MagicMock, statement: str, **settings: str) -> dict[str, Any]:
    catalog = Catalog(MagicMock(), {"kafka.bootstrap.servers": "127.0.0.1:1"})
    catalog.declared["flights"] = declared_table(Declare("flights", settings={**TEXT, **settings}))
    catalog.analyzed(spark, statement)
    options: dict[str, Any] = spark.read.format.return_value.options.call_args.kwargs
    return options


@pytest.mark.usefixtures("first_records")
@pytest.mark.parametrize("settings", [{}, {f"options.{SLICE_OPTION}": "7"}])
def test_what_a_statement_does_not_want_is_not_asked_for(spark: MagicMock, settings: dict[str, str]) -> None:
    options = options_for(spark, "SELECT count(*) FROM flights WHERE _offset >= 5", **settings)
    assert json.loads(options["recordFilters"]) == [["offset", ">=", 5]]
    assert options["includeContent"] == "false"
    assert SLICE_OPTION in options


@pytest.mark.parametrize(("settings", "looks"), [({}, 1), ({"bad.records": "drop"}, 0)])
def test_a_limit_counts_only_records_that_are_not_dropped(
    spark: MagicMock, first_records: MagicMock, settings: dict[str, str], looks: int
) -> None:
    options_for(spark, "SELECT value FROM flights LIMIT 3", **settings)
    assert first_records.call_count == looks


@pytest.mark.parametrize(("topic_id", "looks"), [("the same", 1), ("another", 2)])
def test_columns_of_a_topic_that_was_made_anew_do_not_count_for_it(
    monkeypatch: pytest.MonkeyPatch, topic_id: str, looks: int
) -> None:
    found = MagicMock(return_value=Format(name="json", schema="a STRING"))
    for name in ("latest_records", "decoded"):
        monkeypatch.setattr(catalog_module, name, MagicMock())
    monkeypatch.setattr(catalog_module, "inferred", found)
    monkeypatch.setattr(catalog_module, "slice_records", lambda _: 1)
    topics = MagicMock()
    topics.all.return_value = {"flights": None}
    topics.next_offsets.return_value = {0: 5}  # it has as many records as the former one
    catalog = Catalog(topics, {})
    for each in ("the same", topic_id):
        topics.topic_id.return_value = each
        spark = MagicMock()
        spark.sql.side_effect = [UnknownTable(), MagicMock()]
        catalog.analyzed(spark, "SELECT a, b FROM flights")
    assert found.call_count == looks


@pytest.mark.usefixtures("first_records")
def test_a_function_of_the_users_reads_a_topic_as_a_whole(spark: MagicMock) -> None:
    catalog = Catalog(MagicMock(), {})
    catalog.declared["flights"] = declared_table(Declare("flights", settings=TEXT))
    spark.sql.side_effect = [MagicMock(), UnknownTable(), MagicMock()]
    catalog.analyzed(spark, "create temporary function f() returns bigint return select min(_offset) from flights")
    catalog.analyzed(spark, "SELECT f() FROM flights WHERE _offset >= 5")
    assert "recordFilters" not in spark.read.format.return_value.options.call_args.kwargs


@pytest.mark.usefixtures("first_records")
def test_what_a_table_says_itself_of_its_reading_goes_first(spark: MagicMock) -> None:
    own = '[["partition", "=", 1]]'
    options = options_for(spark, "SELECT * FROM flights WHERE _offset >= 5", **{"options.recordFilters": own})
    assert options["recordFilters"] == own
