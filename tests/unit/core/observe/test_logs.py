"""Logs are structured, and a full disk under them breaks nothing."""

import errno
import io
import json
import logging
import os

import pytest
import structlog

from ottla_core.observe.log_levels import LEVELS
from ottla_core.observe.logs import configure_logs


@pytest.fixture(autouse=True)
def restore_logging():
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()


class FullDisk(io.StringIO):
    """A stream on a disk without room."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_event_is_a_json_line_with_service_level_and_time() -> None:
    stream = io.StringIO()
    configure_logs("broker-1", stream=stream)
    structlog.get_logger("x").info("ready", port=9092)
    logging.getLogger("library").warning("careful")

    ready, careful = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (ready["event"], ready["service"], ready["level"], ready["port"]) == ("ready", "broker-1", "info", 9092)
    assert (careful["event"], careful["service"], careful["level"]) == ("careful", "broker-1", "warning")
    assert ready["timestamp"].endswith("Z")


def test_less_severe_events_are_left_out() -> None:
    stream = io.StringIO()
    configure_logs("broker-1", level="warning", stream=stream)
    structlog.get_logger("y").info("chatter")
    assert stream.getvalue() == ""


def test_levels_change_while_the_process_runs() -> None:
    stream = io.StringIO()
    configure_logs("broker-1", stream=stream)
    store, other = structlog.get_logger("log.store"), structlog.get_logger("listener")
    store.debug("left out")
    LEVELS.set("log", "DEBUG")
    LEVELS.set("listener", "ERROR")
    store.debug("shown")
    other.warning("left out")
    LEVELS.set("log", None)
    store.debug("left out")
    store.info("shown")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["shown", "shown"]


def test_a_full_disk_loses_lines_and_nothing_else() -> None:
    configure_logs("broker-1", stream=FullDisk())
    structlog.get_logger("z").error("storage error")
    logging.getLogger("library").error("also lost")
