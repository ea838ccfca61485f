"""What a command prints arrives whole, though the system takes a part of it only, however Python was started."""

import array
import fcntl
import signal
import subprocess
import sys
import termios
from typing import IO

import pytest

from tests.support.eventually import eventually
from tests.support.machine.process_stat import stat

PROGRAM = """
import sys, typer
import ottla.command_tree
from ottla import main, output

app = typer.Typer(rich_markup_mode=None)

@app.command()
def command():
    {printing}

ottla.command_tree.app = app
sys.exit(main.program())
"""
SIZE = 1_000_000


def unread_bytes(pipe: IO[bytes]) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


@pytest.mark.parametrize("options", [["-u"], []], ids=["unbuffered", "buffered"])
@pytest.mark.parametrize(
    "printing",
    [
        f"output.write_result(b'x' * {SIZE})",
        f"output.print_json('x' * {SIZE})",
        f"output.print_table(['a'], [('x' * {SIZE},)])",
        f"print('x' * {SIZE})",
    ],
    ids=["bytes", "json", "table", "text"],
)
def test_a_command_that_is_stopped_while_it_prints_and_goes_on_loses_nothing(
    printing: str, options: list[str]
) -> None:
    with subprocess.Popen(
        [sys.executable, *options, "-c", PROGRAM.format(printing=printing)], stdout=subprocess.PIPE
    ) as command:
        assert command.stdout is not None
        pipe, pid = command.stdout, command.pid
        eventually(lambda: unread_bytes(pipe) > 0 and stat(pid)[0] == "S", "it waits, as the pipe is full")
        command.send_signal(signal.SIGSTOP)
        eventually(lambda: stat(pid)[0] == "T", "it is stopped")
        command.send_signal(signal.SIGCONT)
        printed = pipe.read()
    assert command.returncode == 0
    assert printed.count(b"x") == SIZE
