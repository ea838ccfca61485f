"""Every command that a document names is there, with the options that it names."""

import pytest

from tests.documents.documents import ROOT
from tests.documents.named_commands import (
    calls,
    is_group,
    named_in_tables,
    refusal,
    tree,
    typed_lines,
    unknown_in_text,
)
from tests.unit.test_documents import PAGES

INDEX = ROOT / "docs/README.md"
REFERENCE = ROOT / "docs/mirroring-reference.md"
WITH_COMMANDS = [*PAGES, *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("plugins/*/*.md"))]


@pytest.mark.parametrize("document", WITH_COMMANDS)
def test_every_command_of_a_block_is_one_that_ottla_takes(document: str) -> None:
    refused = {
        " ".join(arguments): why
        for arguments in typed_lines((ROOT / document).read_text())
        if (why := refusal(arguments)) is not None
    }

    assert refused == {}


@pytest.mark.parametrize("document", WITH_COMMANDS)
def test_every_command_and_option_in_the_text_exists(document: str) -> None:
    assert unknown_in_text((ROOT / document).read_text()) == []


def test_the_index_has_every_command() -> None:
    every = {path for path, command in tree().items() if not is_group(command)}

    assert every - named_in_tables(INDEX.read_text()) == set()


def test_parts_of_a_pipeline_are_found() -> None:
    line = "A=1 .venv/bin/ottla consume a -f '%k | %s' | jq . | ottla produce b && echo ottla topic; ottla down"

    assert [*calls(line)] == [["consume", "a", "-f", "%k | %s"], ["produce", "b"], ["down"]]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["topic", "create"], "Missing"),
        (["topic", "creat", "orders"], "creat"),
        (["topic", "create", "orders", "--partition", "3"], "--partition"),
        (["topic", "create", "orders", "--partitions", "three"], "three"),
    ],
)
def test_a_wrong_command_is_noticed(arguments: list[str], why: str) -> None:
    assert why in str(refusal(arguments))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`ottla connect statuses`", "ottla connect statuses"),
        ("`ottla status --jsn`", "ottla status --jsn"),
        ("`link status --again`", "--again"),
        ("give `--replicas-factor`", "--replicas-factor"),
        ("| `ottla topic create`, `remove` | |", "remove"),
        ("| of links: `ottla mirror link` | |\n|---|---|\n| `promote`, `pause` | `--revrse` |", "--revrse"),
    ],
)
def test_a_wrong_name_in_a_sentence_is_noticed(text: str, wrong: str) -> None:
    assert any(wrong in each for each in unknown_in_text(text))
