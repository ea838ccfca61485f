"""Log records of a process as lines of JSON."""

import json
import logging
import os
import sys

import pytest

from ottla_connect.task.json_logging import JsonLines
from ottla_sdk.runtime.redaction import Redaction


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "log"
    redaction = Redaction()
    redaction.add({"${env:PASSWORD}": "hunter22"})
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    logger = logging.Logger("connector.flights")
    logger.addHandler(JsonLines(redaction, descriptor))
    yield logger, lambda: [json.loads(line) for line in path.read_text().splitlines()]
    os.close(descriptor)


def test_a_record_is_a_line_of_json(written):
    logger, lines = written
    logger.warning("read %d\nrows – of %s", 3, "hunter22")
    assert lines() == [
        {"level": "warning", "logger": "connector.flights", "message": "read 3\nrows – of ${env:PASSWORD}"}
    ]


def test_an_exception_has_its_trace(written):
    logger, lines = written
    try:
        raise ValueError("hunter22 is wrong")
    except ValueError:
        logger.error("cannot log in", exc_info=sys.exc_info())  # noqa: G201
    (line,) = lines()
    assert "ValueError: ${env:PASSWORD} is wrong" in line["trace"]
    assert "Traceback" in line["trace"]


def test_text_that_is_no_unicode_is_written_all_the_same(written):
    logger, lines = written
    logger.info("a lone surrogate: \udc80")
    assert lines()[0]["message"].startswith("a lone surrogate: ")
