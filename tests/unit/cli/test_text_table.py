"""Tables for people."""

from ottla.text_table import fitted, table_text


def lines(text: str) -> list[str]:
    return text.strip("\n").split("\n")


def test_numbers_stand_to_the_right_and_empty_cells_are_blank() -> None:
    shown = lines(table_text(["topic", "partitions#"], [("flights", 12), (None, 3)]))
    assert shown == [
        "topic     partitions",
        "────────────────────",
        "flights           12",
        "                   3",
    ]


def test_a_title_stands_above() -> None:
    assert lines(table_text(["a"], [("b",)], title="one: stable"))[0] == "one: stable"


def test_a_cell_that_is_too_wide_is_folded_and_not_cut() -> None:
    shown = lines(table_text(["name", "value"], [("n", "x" * 30)], width=20))
    assert max(len(line) for line in shown) <= 20
    assert sum(line.count("x") for line in shown) == 30


def test_without_a_width_nothing_is_folded() -> None:
    assert "x" * 500 in table_text(["name"], [("x" * 500,)])


def test_wide_characters_count_as_two_columns() -> None:
    shown = lines(table_text(["a", "b"], [("東京", "1"), ("abcd", "2")]))
    assert shown[2] == "東京   1"
    assert shown[3] == "abcd   2"


def test_the_widest_columns_give_way_first() -> None:
    assert fitted([5, 100, 10], 60) == [5, 45, 10]
    assert fitted([20, 20], 4) == [8, 8]
