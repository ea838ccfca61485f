"""Which tables the SQL source reads, and how they are divided among tasks."""

import json

import pytest

from ottla_sql.source.table_selection import TableId, divided, schema_filter, table_filter, topic_of
from tests.support.connect.sql_runs import SqliteFile, polled, running_source
from tests.support.eventually import eventually

NOTHING = {"whitelist": (), "blacklist": (), "include": (), "exclude": ()}
ORDERS, USERS, OTHER = TableId("shop", "orders"), TableId("shop", "users"), TableId("private", "users")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {ORDERS, USERS, OTHER}),
        ({"whitelist": ["users"]}, {USERS, OTHER}),
        ({"whitelist": ["shop.users", "private.orders"]}, {USERS}),
        ({"blacklist": ["users"]}, {ORDERS}),
        ({"blacklist": ["private.users"]}, {ORDERS, USERS}),
        ({"include": [r"shop\..*"]}, {ORDERS, USERS}),
        ({"include": ["users"]}, set()),
        ({"include": [".*"], "exclude": [r"[^.]*\.users"]}, {ORDERS}),
    ],
)
def test_lists_choose_tables_by_name_or_full_name_and_patterns_by_full_name(settings, expected):
    chosen = table_filter(**{**NOTHING, **settings})
    assert {each for each in (ORDERS, USERS, OTHER) if chosen(each)} == expected


def test_schema_patterns_are_those_of_like():
    assert schema_filter("sh%")("shop")
    assert schema_filter("sh_p")("shop")
    assert not schema_filter("sh_p")("sheep")
    assert not schema_filter(r"a\_b")("axb")
    assert schema_filter(r"a\_b")("a_b")
    assert not schema_filter("shop")("shop2")


def test_tables_are_divided_evenly_and_always_in_the_same_way():
    tables = [TableId(None, f"t{number}") for number in (3, 1, 4, 0, 2)]
    names = [[each.name for each in task] for task in divided(tables, 2)]
    assert names == [["t0", "t1", "t2"], ["t3", "t4"]]
    assert len(divided(tables, 100)) == 5
    assert divided([], 3) == []


def test_topics_have_no_characters_that_kafka_refuses():
    assert topic_of("db-", TableId("s", "Order Details (old)")) == "db-Order_Details__old_"


@pytest.fixture
def database(tmp_path):
    made = SqliteFile(tmp_path)
    made.run(
        'CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE "B b" (id INTEGER PRIMARY KEY);'
        'CREATE VIEW v AS SELECT id FROM a; INSERT INTO a VALUES (1); INSERT INTO "B b" VALUES (2)'
    )
    return made


def test_tasks_share_the_tables(database):
    with running_source(database.url, "incrementing", tasks_max=5) as run:
        tables = [json.loads(task.settings["tables"]) for task in run.tasks]
        assert tables == [[[None, "B b", False]], [[None, "a", False]]]
        assert {record.topic: record.value["id"] for record in run.read(2)} == {"B_b": 2, "a": 1}


def test_views_are_read_if_they_are_asked_for(database):
    settings = {"table_types": "view", "incrementing_column_name": "id"}
    with running_source(database.url, "incrementing", **settings) as run:
        assert [(record.topic, record.value) for record in polled(run)] == [("v", {"id": 1})]


def test_without_tables_there_are_no_tasks(database):
    with running_source(database.url, "bulk", table_whitelist="none") as run:
        assert run.tasks == []


def test_new_and_dropped_tables_lead_to_new_tasks(database):
    with running_source(database.url, "incrementing", table_poll_interval_ms="100") as run:
        context = run.connector.context
        database.run("CREATE TABLE c (id INTEGER PRIMARY KEY)")
        eventually(lambda: context.reconfigurations, "the new table is noticed")
        (task,) = run.connector.task_configs(1)
        assert [name for _, name, _ in json.loads(task["tables"])] == ["B b", "a", "c"]
        before = context.reconfigurations
        database.run("DROP TABLE c")
        eventually(lambda: context.reconfigurations > before, "the dropped table is noticed")


def test_offsets_that_a_user_sets_are_checked(database):
    with running_source(database.url, "incrementing") as run:
        check = run.connector.check_offsets
        assert list(check([({"table": "a"}, {"incrementing": 3}), ({"table": "b"}, None)])) == []
        (problem,) = check([({"file": "a"}, None)])
        assert "not of the form" in problem.message
        (problem,) = check([({"table": "a"}, {"timestamp": 1, "timestamp_nanos": -1})])
        assert "timestamp_nanos must be" in problem.message


def test_a_database_that_cannot_be_opened_is_found_by_the_check(tmp_path):
    with running_source(SqliteFile(tmp_path).url, "bulk") as run:
        connector = run.connector
        connector.configure({**connector.settings, "connection.url": f"sqlite:///{tmp_path}/no/such/folder.db"})
        (problem,) = connector.check()
    assert problem.key == "connection.url"
    assert "unable to open" in problem.message
