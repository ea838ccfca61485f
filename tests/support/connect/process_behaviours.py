"""What the processes of the tests of `ProcessHost` do, well and badly: the entry `run`, by the task's setting ``do``.

Stands in for the task runtime, so that the tests need neither plugins nor Kafka. A process says `TopicsUsed` to hand
words to the test.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ottla_connect.processes.frames import FrameReader
from ottla_connect.processes.messages import (
    Answer,
    ConfigDescribed,
    DescribeConfig,
    Failed,
    ListPlugins,
    Message,
    Outlook,
    PluginsListed,
    Running,
    RunTask,
    Stop,
    Stopped,
    TopicsUsed,
    ToProcess,
    Validate,
    decode_to_process,
    encode,
)

ENTRY = f"{__name__}:run"
EXIT_CODE = 7
STEP_BYTES = 16 * 1024 * 1024
FOR_EVER_S = 3600
"""Longer than any test: who sleeps so long does nothing more by itself, and is ended by the host that is tested."""


class WorkerGone(Exception):
    """The channel is closed."""


class Conversation:
    """The process's end of the channel."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self._frames = FrameReader()
        self._waiting: list[ToProcess] = []

    def say(self, message: Message) -> None:
        self.channel.sendall(encode(message))

    def hear(self) -> ToProcess:
        while not self._waiting:
            received = self.channel.recv(65536)
            if not received:
                raise WorkerGone
            self._waiting += [decode_to_process(text) for text in self._frames.feed(received)]
        return self._waiting.pop(0)

    def serve_until_stop(self) -> int:
        self.say(Running())
        while not isinstance(self.hear(), Stop):
            pass
        self.say(Stopped())
        return 0


def run(channel: socket.socket) -> int:
    """Does what the first message says."""
    conversation = Conversation(channel)
    try:
        purpose = conversation.hear()
        if isinstance(purpose, RunTask):
            return BEHAVIOURS[purpose.settings["do"]](conversation)
        return answer(conversation, purpose)
    except WorkerGone:
        return 0


def answer(conversation: Conversation, purpose: ToProcess) -> int:
    match purpose:
        case ListPlugins(entry_point="hangs"):
            time.sleep(FOR_EVER_S)  # until the test ends the process
        case ListPlugins(entry_point="dies"):
            print("about to die", file=sys.stderr)
            os._exit(EXIT_CODE)
        case ListPlugins(entry_point="slow"):
            time.sleep(0.02)  # an answer that others may overtake
        case DescribeConfig():
            conversation.say(Failed(reason="there is no such plugin", trace="Traceback …", outlook=Outlook.FATAL))
            return 0
    made: Answer = PluginsListed(plugins=[]) if not isinstance(purpose, Validate) else ConfigDescribed(settings=[])
    conversation.say(made)
    return 0


def be_idle(conversation: Conversation) -> int:
    return conversation.serve_until_stop()


def segfault(conversation: Conversation) -> int:
    conversation.say(Running())
    ctypes.string_at(0)
    return 0


def leak(conversation: Conversation) -> int:
    held = []
    while True:
        held.append(b"x" * STEP_BYTES)
        time.sleep(0.01)  # the supervisor looks at memory now and then, and must see it grow


def hang(conversation: Conversation) -> int:
    conversation.say(Running())
    while True:
        time.sleep(FOR_EVER_S)  # until the test ends the process


def leave(conversation: Conversation) -> int:
    print("leaving")
    os._exit(EXIT_CODE)


def flood(conversation: Conversation) -> int:
    conversation.say(Running())
    number = 0
    while True:
        print(f"line {number}")
        number += 1


def one_long_line(conversation: Conversation) -> int:
    sys.stdout.write("x" * 1_000_000)
    return conversation.serve_until_stop()


def talk(conversation: Conversation) -> int:
    print("a plain line")
    print(json.dumps({"level": "WARNING", "logger": "plugin", "message": "careful", "trace": "one\ntwo"}))
    print("on standard error", file=sys.stderr)
    return conversation.serve_until_stop()


def send_garbage(conversation: Conversation) -> int:
    conversation.channel.sendall(b"\0\0\0\4oops")
    time.sleep(FOR_EVER_S)  # until the test ends the process
    return 0


def send_too_much(conversation: Conversation) -> int:
    conversation.channel.sendall(b"\xff\xff\xff\xff")
    time.sleep(FOR_EVER_S)  # until the test ends the process
    return 0


def fail_and_stay(conversation: Conversation) -> int:
    conversation.say(Failed(reason="broken", trace="", outlook=Outlook.OPEN))
    time.sleep(FOR_EVER_S)  # until the test ends the process
    return 0


def fail_at_once(conversation: Conversation) -> int:
    """Says a lot, and ends before anybody has read it."""
    conversation.say(TopicsUsed(topics=["x" * 100_000]))
    conversation.say(Failed(reason="broken", trace="", outlook=Outlook.OPEN))
    return 1


def raise_error(conversation: Conversation) -> int:
    raise RuntimeError("nobody catches this")


def close_channel(conversation: Conversation) -> int:
    conversation.channel.close()
    time.sleep(FOR_EVER_S)  # until the test ends the process
    return 0


def read_nothing(conversation: Conversation) -> int:
    conversation.say(Running())
    time.sleep(FOR_EVER_S)  # until the test ends the process
    return 0


def show_surroundings(conversation: Conversation) -> int:
    fds = sorted(int(each.name) for each in Path("/proc/self/fd").iterdir())
    words = [
        " ".join(str(fd) for fd in fds[:-1]),  # the last one lists the directory
        Path("/proc/self/comm").read_text().strip(),
        str(Path("/proc/self/fd/0").readlink()),
        str(os.getsid(0) == os.getpid()),
        str(signal.getsignal(signal.SIGINT) == signal.SIG_DFL),
    ]
    conversation.say(TopicsUsed(topics=words))
    return conversation.serve_until_stop()


def start_a_program(conversation: Conversation) -> int:
    program = subprocess.Popen(["sleep", str(FOR_EVER_S)])
    conversation.say(TopicsUsed(topics=[str(program.pid)]))
    return conversation.serve_until_stop()


BEHAVIOURS: dict[str, Callable[[Conversation], int]] = {
    each.__name__: each
    for each in (
        be_idle,
        segfault,
        leak,
        hang,
        leave,
        flood,
        one_long_line,
        talk,
        send_garbage,
        send_too_much,
        fail_and_stay,
        fail_at_once,
        raise_error,
        close_channel,
        read_nothing,
        show_surroundings,
        start_a_program,
    )
}
