"""Queries in a process of their own: what they answer, what they cannot reach, and what they cannot take."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ottla_operations.errors import OperationError
from ottla_operations.queries import query_process as module
from ottla_operations.queries.query_answer import Answer, BadSql, record_row
from ottla_operations.queries.query_process import QueryProcess, check_sql, prepare, query_process
from ottla_operations.queries.sandbox import SETTINGS, Problem, check
from ottla_operations.records.record_line import Record

PATIENT_S = 60.0
"""For a busy machine; what a query takes of the processor is bounded all the same."""
DISABLED = "disabled by configuration"


def answer_of(sql: str, values: Sequence[Any] = (), *, rows_max: int = 100, within_s: float = PATIENT_S) -> Answer:
    with query_process() as process:
        write(process, values)
        return process.ask(sql, "flights", rows_max, within_s=within_s)


def write(process: QueryProcess, values: Sequence[Any]) -> None:
    for number, value in enumerate(values):
        text = value if isinstance(value, str | None) else json.dumps(value)
        record = Record(
            value=None,
            partition=0,
            offset=number,
            timestamp=1_357_000_000_000 + number,
            headers=(("n", b"%d" % number),),
        )
        process.add(record_row(record, text, f"key {number}"))


def test_records_are_a_table_with_the_fields_of_their_values() -> None:
    values = [{"delay": 7, "to": {"code": "JFK"}}, {"delay": -2, "Key": "mine"}, "no JSON", None, "[1]", '{"cut": ']
    answer = answer_of("SELECT * FROM records ORDER BY records.offset", values)
    names = ["topic", "partition", "offset", "timestamp", "key", "value", "headers", "delay", "to", "value_Key"]
    assert [each.name for each in answer.columns] == names == [each.name for each in answer.table]
    first = ["flights", 0, 0, "2013-01-01 00:26:40", "key 0", '{"delay": 7, "to": {"code": "JFK"}}']
    assert answer.rows[0] == [*first, '{"n":"0"}', 7, {"code": "JFK"}, None]
    assert [row[7:] for row in answer.rows[1:]] == [[-2, None, "mine"], *[[None, None, None]] * 4]
    assert [row[5] for row in answer.rows[2:]] == ["no JSON", None, "[1]", '{"cut": ']
    assert not answer.is_cut


def test_fields_are_typed_so_that_sums_and_comparisons_need_no_casts() -> None:
    values = [{"carrier": "UA", "delay": 30}, {"carrier": "B6", "delay": 5}, {"carrier": "UA", "delay": 12}]
    answer = answer_of(
        "SELECT carrier, sum(delay)::BIGINT AS late, avg(delay - 40) FROM records GROUP BY ALL ORDER BY late DESC",
        values,
    )
    assert answer.rows == [["UA", 42, -19.0], ["B6", 5, -35.0]]
    assert [each.type for each in answer.columns] == ["VARCHAR", "BIGINT", "DOUBLE"]


def test_numbers_beyond_64_bits_and_strange_names_are_kept() -> None:
    values = [{"n": 2**64 - 1, 'a"b': 1, "x y": True, "": 0}, {"n": -1}, '{"d": 1, "d": 2}', {"nul": "a\0b"}]
    answer = answer_of('SELECT n, "a""b", "x y", nul FROM records', values)
    assert answer.rows == [
        [2**64 - 1, 1, True, None],
        [-1, None, None, None],
        [None, None, None, None],
        [None, None, None, "a\0b"],
    ]
    assert answer.fields_left_out == 1


def test_fields_are_typed_by_all_values_however_many_there_are() -> None:
    values = [*({"n": number} for number in range(45_000)), {"n": 0.5, "late": True}]
    answer = answer_of("SELECT count(n), sum(n), count(late) FROM records", values)
    assert answer.rows == [[45_001, 1_012_477_500.5, 1]]
    assert answer.table[-1].type == "BOOLEAN"


def test_no_records_are_a_table_without_rows() -> None:
    assert answer_of("SELECT count(*) FROM records").rows == [[0]]


def test_values_of_all_types_are_told() -> None:
    sql = (
        "SELECT 1.5::DECIMAL(9, 2), 'nan'::DOUBLE, DATE '2013-01-01', TIMESTAMPTZ '2013-01-01 05:00:00+00', "
        "INTERVAL 3 DAY, [1, NULL], {'a': 1}, MAP {'k': 2}, '\\xAA'::BLOB, TIME '05:00:00', true"
    )
    row = answer_of(sql).rows[0]
    assert row[:3] == [1.5, "nan", "2013-01-01"]
    assert row[3].startswith("2013-01-01 05:00:00")
    assert row[4:] == ["3 days, 0:00:00", [1, None], {"a": 1}, {"k": 2}, "aa", "05:00:00", True]


def test_an_error_is_duckdbs_own() -> None:
    with pytest.raises(BadSql, match=r"(?s)column \"dela\" not found.*LINE 1"):
        answer_of("SELECT dela FROM records", [{"delay": 1}])


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT * FROM read_text('/etc/passwd')", DISABLED),
        ("SELECT * FROM read_csv('/etc/passwd')", DISABLED),
        ("SELECT * FROM read_blob('/dev/fd/3')", DISABLED),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SELECT * FROM glob('/*')", DISABLED),
        ("SELECT * FROM read_parquet('https://example.com/x.parquet')", "disabled by configuration|httpfs|extension"),
        ("SELECT * FROM question", "does not exist"),
        ("SELECT getenv('PATH')", "does not exist"),
    ],
)
def test_a_query_reaches_nothing_but_the_records(sql: str, problem: str) -> None:
    with pytest.raises(BadSql, match=problem):
        answer_of(sql, [{"a": 1}])


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH '/tmp/other.db'",
        "COPY records TO '/tmp/stolen.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 8",
        "PRAGMA memory_limit = '1TB'",
        "CREATE TABLE t AS SELECT 1",
        "EXPORT DATABASE '/tmp/stolen'",
        "SELECT 1; SELECT 2",
        "-- nothing",
    ],
)
def test_what_is_not_one_select_is_refused(sql: str) -> None:
    with duckdb.connect(":memory:", config=SETTINGS) as connection, pytest.raises(Problem, match="write one SELECT"):
        check(connection, sql)


def test_the_process_refuses_what_is_not_one_select() -> None:
    with pytest.raises(BadSql, match="write one SELECT"):
        answer_of("COPY (SELECT 1) TO '/tmp/stolen.csv'")


def test_the_process_has_nothing_of_ours_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_CLUSTER_PROD_CLIENT_SASL_PASSWORD", "secret")
    with query_process() as process:
        environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        assert b"secret" not in environment


def test_large_values_are_taken_apart_in_the_memory_that_there_is() -> None:
    values = [{"n": number, "note": "x" * 1_000_000} for number in range(50)] + [{"n": -1}] * 1_000
    answer = answer_of("SELECT count(*), sum(n)::BIGINT, max(length(note)) FROM records", values)
    assert answer.rows == [[1_050, 225, 1_000_000]]


def test_rows_of_a_huge_join_are_bounded() -> None:
    values = [{"n": number} for number in range(5_000)]
    answer = answer_of("SELECT a.n, b.n FROM records a, records b, records c", values, rows_max=1_000)
    assert len(answer.rows) == 1_000
    assert answer.is_cut


def test_a_query_without_an_end_is_ended() -> None:
    with pytest.raises(BadSql, match="more than 1 s"):
        answer_of("SELECT count(*) FROM range(1000000000000) t(a) WHERE a % 7 = 3", within_s=1)
    with pytest.raises(BadSql, match=r"took more than 1 s|memory"):
        answer_of(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r", within_s=1
        )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 2000000000)",
        "SELECT list(a) FROM range(1000000000) t(a)",
        "SELECT * FROM range(100000000) t(a) ORDER BY hash(a)",
    ],
)
def test_a_query_that_wants_too_much_memory_is_refused(sql: str) -> None:
    with pytest.raises((BadSql, OperationError), match=r"(?i)memory"):
        answer_of(sql)


def test_an_answer_with_large_cells_is_bounded() -> None:
    answer = answer_of("SELECT repeat('x', 3000000) FROM range(100)")
    assert answer.is_cut
    assert len(answer.rows) == 16
    assert all(row == ["x" * 1_000_000] for row in answer.rows)


def test_values_that_are_deep_do_no_harm() -> None:
    values = ['{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", '{"a":' * 50_000 + "1" + "}" * 50_000, {"b": 1}]
    assert answer_of("SELECT b FROM records", values).rows == [[None], [None], [1]]
    nested = ['{"a": ' + "[" * 4_900 + "]" * 4_900 + "}", {"b": 1}]
    assert answer_of("SELECT count(*) FROM records", nested).rows == [[2]]


def test_only_so_many_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with query_process(), query_process(), pytest.raises(OperationError, match="2 queries are under way"):
        query_process().__enter__()
    assert answer_of("SELECT 1").rows == [[1]]


def test_the_process_ends_with_the_block_that_it_was_lent_to() -> None:
    with query_process() as process:
        pid = process.pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_process_that_was_prepared_is_used_once() -> None:
    others = children()
    prepare()
    prepare()
    (ready,) = children() - others
    with query_process() as process:
        assert process.pid == ready
        write(process, [{"a": 1}])
        assert process.ask("SELECT a FROM records", "flights", 1, within_s=PATIENT_S).rows == [[1]]
    assert ready not in children()
    with query_process() as process:
        assert process.pid != ready


def test_a_process_that_was_prepared_and_has_died_is_not_used() -> None:
    others = children()
    prepare()
    (ready,) = children() - others
    os.kill(ready, signal.SIGKILL)
    os.waitid(os.P_PID, ready, os.WEXITED | os.WNOWAIT)
    assert answer_of("SELECT 1").rows == [[1]]


@pytest.mark.parametrize(("before", "code"), [("sandbox.UNASKED_S = 1", -signal.SIGALRM), ("os.close(asker)", 0)])
def test_a_process_that_nobody_asks_ends_by_itself(before: str, code: int) -> None:
    program = (
        "import os\nfrom ottla_operations.queries import sandbox\nheard, asker = os.pipe()\nos.dup2(heard, 0)\n"
        f"{before}\nraise SystemExit(sandbox.main())"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=PATIENT_S, check=False)
    assert done.returncode == code


def children() -> set[int]:
    return {int(each) for each in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def test_a_process_that_cannot_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "ottla_operations.no_such_module")
    with pytest.raises(OperationError, match="no answer"):
        answer_of("SELECT 1")


@pytest.mark.parametrize("sql", ["", "  ", "SELECT '" + "x" * 20_000 + "'", "SELECT '\0'"])
def test_what_is_no_query_is_refused(sql: str) -> None:
    with pytest.raises(BadSql, match="at most 10,000 characters"):
        check_sql(sql)


def parquet_of(sql: str, values: Sequence[Any], *, rows_max: int = 100) -> bytes:
    with query_process() as process:
        write(process, values)
        return process.ask_for_parquet(sql, "flights", rows_max, within_s=PATIENT_S)


def test_an_answer_is_a_file_of_parquet_with_types(tmp_path: Path) -> None:
    path = tmp_path / "answer.parquet"
    path.write_bytes(parquet_of("SELECT * FROM records;", [{"delay": 7}, {"delay": -2}, None]))
    found = duckdb.execute(f"SELECT \"offset\", delay, headers, timestamp::VARCHAR FROM '{path}'").fetchall()
    assert found[:2] == [(0, 7, '{"n":"0"}', "2013-01-01 00:26:40"), (1, -2, '{"n":"1"}', "2013-01-01 00:26:40.001")]
    assert found[2][1] is None
    path.write_bytes(parquet_of("SELECT a FROM range(1000) t(a)", [], rows_max=10))
    assert duckdb.execute(f"SELECT count(*) FROM '{path}'").fetchall() == [(10,)]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT * FROM read_text('/etc/passwd')", DISABLED),
        ("COPY records TO '/tmp/stolen'", "write one SELECT"),
        ("SELECT nothing FROM records", "not found"),
        ("SELECT a, hash(a), hash(a + 1) FROM range(100000000) t(a)", "(?i)larger than|memory"),
    ],
)
def test_a_query_for_parquet_reaches_and_takes_no_more_than_others(sql: str, problem: str) -> None:
    with pytest.raises(BadSql, match=problem):
        parquet_of(sql, [{"a": 1}], rows_max=100_000_000)
