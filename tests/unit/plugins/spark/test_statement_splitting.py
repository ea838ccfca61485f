"""Where statements end, as Spark's lexer sees it."""

import pytest

from ottla_spark.statement_splitting import Kind, is_complete, split, statements, tokens


def test_statements_end_at_semicolons() -> None:
    assert statements("SELECT 1; SELECT 2 ;\n\n;; SELECT 3") == ["SELECT 1", "SELECT 2", "SELECT 3"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT ';'",
        'SELECT ";"',
        r"SELECT 'it\'s; not over'",
        "SELECT 'it''s; not over'",
        "SELECT `a;b` FROM `x``;y`",
        "SELECT 1 -- one; two\n + 1",
        "SELECT 1 -- goes on \\\n ; here\n + 1",
        "SELECT /* a; /* nested; */ still; */ 1",
        "SELECT /*+ BROADCAST(a;b) */ 1",
        "SELECT 'a\n;\nb'",
    ],
)
def test_a_semicolon_within_quotes_or_a_comment_ends_nothing(statement: str) -> None:
    assert statements(f"{statement}; SELECT 2") == [statement, "SELECT 2"]


def test_a_backslash_ends_a_raw_string_like_any_other_character() -> None:
    assert statements(r"SELECT r'\'; SELECT R'\'") == [r"SELECT r'\'", r"SELECT R'\'"]


def test_only_comments_are_no_statement() -> None:
    assert statements("-- nothing\n; /* here */ ;") == []


def test_comments_around_a_statement_are_left_out_and_those_within_stay() -> None:
    assert statements("-- first\nSELECT /* all */ * FROM x -- last\n;") == ["SELECT /* all */ * FROM x"]


def test_a_statement_knows_the_line_of_its_first_word() -> None:
    found = split("SELECT 1;\n\n-- why\nSELECT\n 2;\nSELECT 3")
    assert [(each.line, each.ended) for each in found] == [(1, True), (4, True), (6, False)]


def test_a_compound_statement_keeps_its_semicolons() -> None:
    compound = """BEGIN
      SELECT CASE WHEN true THEN 1 END;
      IF true THEN SELECT 2; END IF;
      CASE x WHEN 1 THEN SELECT 3; END CASE;
      BEGIN SELECT 4; END;
    END"""
    assert statements(f"{compound}; SELECT 5") == [compound, "SELECT 5"]


@pytest.mark.parametrize("text", ["SELECT 1", "SELECT 'a;", "SELECT `a;", "SELECT 1 /* ;", "SELECT 1; SELECT 2"])
def test_what_has_no_semicolon_behind_it_is_not_complete(text: str) -> None:
    assert not is_complete(text)


def test_a_comment_behind_the_semicolon_leaves_a_statement_complete() -> None:
    assert is_complete("SELECT 1; -- done")


def test_what_does_not_end_is_one_token_to_the_end_of_the_text() -> None:
    assert [(each.kind, each.text) for each in tokens("a 'b; c")] == [(Kind.WORD, "a"), (Kind.UNFINISHED, "'b; c")]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'a''b'", "a'b"),
        (r"'a\'b\n'", "a'b\n"),
        ('"a""b"', 'a"b'),
        (r"r'a\n'", r"a\n"),
        ("`a``b`", "a`b"),
        ("word", "word"),
    ],
)
def test_the_value_of_a_token_is_what_its_quotes_hold(written: str, meant: str) -> None:
    (token,) = tokens(written)
    assert token.value == meant


def test_tokens_say_where_they_stand() -> None:
    text = "SELECT  'x' ,\n`y`"
    assert [text[each.start : each.end] for each in tokens(text)] == ["SELECT", "'x'", ",", "`y`"]
