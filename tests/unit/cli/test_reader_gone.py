"""A reader that goes away (`ottla … | head`) is no error, however a command prints."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, typer
import ottla.command_tree
from ottla import main, output

app = typer.Typer(rich_markup_mode=None)

@app.command()
def command():
    {printing}

ottla.command_tree.app = app
sys.stdin.read()
sys.exit(main.main())
"""


@pytest.mark.parametrize(
    ("printing", "stderr"),
    [
        ("output.print_table(['a'], [('b',)])", subprocess.PIPE),
        ("print('text', flush=True)", subprocess.PIPE),
        ("print('text')", subprocess.PIPE),
        ("output.print_json({})", subprocess.PIPE),
        ("output.note('a note')", subprocess.STDOUT),
    ],
)
def test_what_nobody_reads_is_no_error(printing: str, stderr: int) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(printing=printing)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    assert command.stdout is not None
    command.stdout.close()
    _, said = command.communicate(b"", timeout=60)
    assert (command.returncode, said or b"") == (0, b"")
