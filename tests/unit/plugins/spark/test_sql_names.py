"""What may come next at the prompt, and which name was meant."""

from ottla_spark.sql.completion import candidates
from ottla_spark.sql.prompt import is_finished
from ottla_spark.sql.topics import matching, near_names

NAMES = ["flights", "daily-flights", "airlines"]
COLUMNS = {"flights": ["carrier", "dep_delay"], "airlines": ["name", "odd column"]}


def offered(text: str) -> list[str]:
    return list(candidates(text, NAMES, COLUMNS))


def test_behind_from_all_tables_are_offered() -> None:
    assert offered("SELECT * FROM ") == ["airlines", "`daily-flights`", "flights"]


def test_names_with_dashes_are_offered_in_backquotes() -> None:
    assert offered("SELECT * FROM da") == ["`daily-flights`"]
    assert offered("SELECT * FROM `da") == ["`daily-flights`"]


def test_columns_are_those_of_the_tables_in_the_statement() -> None:
    assert "dep_delay" in offered("SELECT * FROM flights WHERE de")
    assert "dep_delay" not in offered("SELECT * FROM airlines WHERE de")
    assert "`odd column`" in offered("SELECT * FROM airlines WHERE o")


def test_keywords_are_offered_in_any_case() -> None:
    assert "EMIT CHANGES" in offered("SELECT * FROM flights em")


def test_enter_sends_what_has_its_semicolon_and_words_that_need_none() -> None:
    assert all(map(is_finished, ["SELECT 1;", "SELECT 1; SELECT 2; -- done", "exit", " HELP ", ""]))
    assert not any(map(is_finished, ["SELECT 1", "SELECT ';", "SELECT 1; SELECT 2", "exit now"]))


def test_a_topic_is_meant_by_its_name_or_by_one_that_differs_in_case_alone() -> None:
    assert matching("flights", ["Flights", "flights"]) == "flights"
    assert matching("FLIGHTS", ["flights", "airlines"]) == "flights"
    assert matching("FLIGHTS", ["flights", "Flights"]) is None
    assert matching("x", ["flights"]) is None


def test_near_names_are_offered_the_nearest_first() -> None:
    assert near_names("flihgts", NAMES) == ["flights", "daily-flights"]
    assert near_names("zzz", NAMES) == []
