"""Ctrl-C at moments at which Python would lose it."""

import signal
import subprocess
import sys

import pytest

ENDS = """
import gc, os, signal, time, weakref
from ottla import interrupts as module
from ottla.interrupts import Interrupts

if {comes_in_hook}:
    module.RAISED_AGAIN_AFTER_S = 0
interrupts = Interrupts()
interrupts.take_over()

class Thing:
    def __del__(self):
        if {in_finalizer}:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass

def forgotten(_):
    if not {in_finalizer}:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

thing = Thing()
reference = weakref.ref(thing, forgotten)
try:
    del thing
    gc.collect()
    time.sleep(60)
    print("went on")
except KeyboardInterrupt:
    print(f"interrupted {{interrupts.count > 0}}")
"""


@pytest.mark.parametrize("in_finalizer", [False, True], ids=["weak-reference", "finalizer"])
@pytest.mark.parametrize("comes_in_hook", [False, True], ids=["later", "at-once"])
def test_an_interrupt_that_a_callback_swallows_is_raised_again(in_finalizer: bool, comes_in_hook: bool) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS.format(in_finalizer=in_finalizer, comes_in_hook=comes_in_hook)],
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
        preexec_fn=_with_interrupts,  # a job in the background ignores them
    )
    assert (ended.stdout, ended.stderr) == ("interrupted True\n", "")


ENDS_BEFORE = """
import os, signal, sys, typer
import ottla.command_tree
from ottla import interrupts, main

interrupts.RAISED_AGAIN_AFTER_S = 60
app = typer.Typer(rich_markup_mode=None)

class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass

@app.command()
def command():
    Thing()
    print("done")

ottla.command_tree.app = app
sys.exit(main.program())
"""


def test_a_command_that_ends_before_its_interrupt_is_raised_again_has_been_interrupted() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_BEFORE],
        capture_output=True, text=True, timeout=50, check=False, preexec_fn=_with_interrupts,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "done\n", "")


def test_what_else_cannot_be_raised_is_told_as_before() -> None:
    program = (
        "from ottla.interrupts import Interrupts\nInterrupts().take_over()\n"
        "class Thing:\n    def __del__(self): raise ValueError('odd')\nThing()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert "ValueError: odd" in ended.stderr


def _with_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
