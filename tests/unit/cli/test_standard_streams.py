"""Commands read and write all there is to it, or say what was wrong, whatever their standard streams are."""

import array
import fcntl
import os
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
    {body}

ottla.command_tree.app = app
sys.exit(main.program())
"""
ECHO = "output.write_result(b''.join(sys.stdin.buffer))"
SIZE = 1_000_000
LARGE = {
    "bytes": f"output.write_result(b'x' * {SIZE})",
    "json": f"output.print_json('x' * {SIZE})",
    "table": f"output.print_table(['a'], [('x' * {SIZE},)])",
    "text": f"print('x' * {SIZE})",
}
PRINTING = {**LARGE, "at the end": "print('x')", "before an exit": "print('x'); raise typer.Exit(0)"}


def unread_bytes(pipe: IO[bytes]) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


def sleeps(command: "subprocess.Popen[bytes]") -> bool:
    return stat(command.pid)[0] == "S"


def program(body: str, *options: str) -> list[str]:
    return [sys.executable, *options, "-c", PROGRAM.format(body=body)]


@pytest.mark.parametrize("options", [["-u"], []], ids=["unbuffered", "buffered"])
@pytest.mark.parametrize("printing", LARGE.values(), ids=LARGE)
def test_a_command_that_is_stopped_while_it_prints_and_goes_on_loses_nothing(
    printing: str, options: list[str]
) -> None:
    with subprocess.Popen(program(printing, *options), stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        pipe = command.stdout
        eventually(lambda: unread_bytes(pipe) > 0 and sleeps(command), "it waits, as the pipe is full")
        command.send_signal(signal.SIGSTOP)
        eventually(lambda: stat(command.pid)[0] == "T", "it is stopped")
        command.send_signal(signal.SIGCONT)
        printed = pipe.read()
    assert command.returncode == 0
    assert printed.count(b"x") == SIZE


@pytest.mark.parametrize("reading", [ECHO, "output.write_result(sys.stdin.buffer.read())"], ids=["lines", "whole"])
def test_an_input_that_has_nothing_for_a_while_has_not_ended(reading: str) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    with (
        os.fdopen(read_end, "rb") as source,
        subprocess.Popen(program(reading), stdin=source, stdout=subprocess.PIPE) as command,
        os.fdopen(write_end, "wb", buffering=0) as pipe,
    ):
        pipe.write(b"one\ntw")
        eventually(
            lambda: command.poll() is not None or (not unread_bytes(source) and sleeps(command)),
            "it waits for more, or has ended",
        )
        pipe.write(b"o\nthree\n")
        pipe.close()
        assert command.stdout is not None
        assert command.stdout.read() == b"one\ntwo\nthree\n"
    assert command.returncode == 0


@pytest.mark.parametrize("printing", LARGE.values(), ids=LARGE)
def test_an_output_without_room_for_a_while_gets_all(printing: str) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with os.fdopen(read_end, "rb") as pipe, subprocess.Popen(program(printing), stdout=write_end) as command:
        os.close(write_end)
        eventually(
            lambda: command.poll() is not None or (unread_bytes(pipe) and sleeps(command)),
            "it waits for room, or has ended",
        )
        printed = pipe.read()
    assert command.returncode == 0
    assert printed.count(b"x") == SIZE


@pytest.mark.parametrize("printing", PRINTING.values(), ids=PRINTING)
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")],
    ids=["full", "closed"],
)
def test_an_output_that_cannot_be_written_is_told(printing: str, redirection: str, reason: str) -> None:
    done = in_shell(printing, redirection)
    assert (done.returncode, done.stderr) == (1, f"ottla: cannot write to standard output: {reason}\n")


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"], ids=["full", "closed"])
def test_messages_that_cannot_be_written_neither_end_a_command_nor_come_among_its_results(redirection: str) -> None:
    done = in_shell("output.note('note'); output.progress_bar(); output.write_result(b'result')", redirection)
    assert (done.returncode, done.stdout) == (0, "result")


def test_a_closed_input_is_no_empty_one() -> None:
    done = in_shell(ECHO, "<&-")
    assert (done.returncode, done.stderr) == (1, "ottla: cannot read standard input: Bad file descriptor\n")


def test_closed_streams_are_given_to_nobody_else() -> None:
    body = "import os; opened = os.open('/', os.O_RDONLY); output.write_result(str(opened > 2).encode())"
    assert in_shell(body, "<&- 2>&-").stdout == "True"


def test_text_that_the_encoding_does_not_have_is_shown_with_backslashes() -> None:
    done = in_shell(r"output.print_table(['a'], [('\u20ac',)])", "", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\u20ac" in done.stdout


def in_shell(body: str, redirection: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *program(body)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
