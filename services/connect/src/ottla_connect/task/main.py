"""The entry of every process that runs plugin code: reads what it is for from the worker, and does that.

The first message is the purpose. A process for a connector or a task goes on until it is told to stop or fails; one
for a question answers it and ends.
"""

import faulthandler
import socket
import sys
from contextlib import suppress
from pathlib import Path

from ottla_connect.processes.messages import (
    ChangeOffsets,
    CheckOffsets,
    DescribeConfig,
    FenceTasks,
    ListPlugins,
    RunConnector,
    RunTask,
    Validate,
)
from ottla_connect.task.answers import check_offsets, describe_config, list_plugins, validate
from ottla_connect.task.channel import Channel, ChannelClosed
from ottla_connect.task.connector_process import run_connector
from ottla_connect.task.fencing import fence_tasks
from ottla_connect.task.json_logging import log_as_json
from ottla_connect.task.offset_change import change_offsets
from ottla_connect.task.process import failure
from ottla_connect.task.task_process import run_task
from ottla_sdk.runtime.redaction import Redaction

EXIT_DONE = 0
EXIT_FAILED = 1
OOM_SCORE_ADJUSTMENT = b"500"
"""When the system runs out of memory, it shall rather take a task than the worker."""


def run(connection: socket.socket) -> int:
    """Run what the worker at the other end of `connection` wants; return the process's exit code."""
    faulthandler.enable(file=2)
    _be_first_to_go()
    redaction = Redaction()
    log_as_json(redaction)
    channel = Channel(connection)
    try:
        purpose = channel.receive()
        try:
            match purpose:
                case RunTask():
                    run_task(channel, redaction, purpose)
                case RunConnector():
                    run_connector(channel, redaction, purpose)
                case ListPlugins():
                    channel.send(list_plugins(purpose))
                case Validate():
                    channel.send(validate(channel, redaction, purpose))
                case DescribeConfig():
                    channel.send(describe_config(channel, redaction, purpose))
                case CheckOffsets():
                    channel.send(check_offsets(channel, redaction, purpose))
                case ChangeOffsets():
                    channel.send(change_offsets(channel, redaction, purpose))
                case FenceTasks():
                    channel.send(fence_tasks(channel, redaction, purpose))
                case _:
                    raise AssertionError(f"a process cannot begin with {type(purpose).__name__}")
        except ChannelClosed:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, the worker hears of it, and the process ends
            channel.send(failure(error, redaction))
            return EXIT_FAILED
    except ChannelClosed:
        return EXIT_FAILED
    return EXIT_DONE


def _be_first_to_go() -> None:
    if sys.platform == "linux":
        with suppress(OSError):  # read-only in some sandboxes
            Path("/proc/self/oom_score_adj").write_bytes(OOM_SCORE_ADJUSTMENT)
