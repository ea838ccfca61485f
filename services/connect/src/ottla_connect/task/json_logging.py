"""Log records as lines of JSON on standard error, from where the worker picks them up and tags them."""

import json
import logging
import os
import sys

from ottla_sdk.runtime.redaction import RedactedStream, Redaction

STANDARD_ERROR = 2
TEXT_CHARACTERS_MAX = 100_000


class JsonLines(logging.Handler):
    """Writes `{"level", "logger", "message", "trace"?}`, each line with one call, so that lines do not mix."""

    def __init__(self, redaction: Redaction, descriptor: int = STANDARD_ERROR) -> None:
        super().__init__()
        self._redaction = redaction
        self._descriptor = descriptor
        self._traces = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            line = json.dumps(self._document(record), ensure_ascii=False).encode(errors="backslashreplace") + b"\n"
            while line:
                line = line[os.write(self._descriptor, line) :]
        except Exception:  # noqa: BLE001 - logging's own way to deal with a record that cannot be logged
            self.handleError(record)

    def _document(self, record: logging.LogRecord) -> dict[str, str]:
        document = {
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redaction.text(record.getMessage())[:TEXT_CHARACTERS_MAX],
        }
        if record.exc_info:
            trace = self._traces.formatException(record.exc_info)
            document["trace"] = self._redaction.text(trace)[:TEXT_CHARACTERS_MAX]
        return document


def log_as_json(redaction: Redaction) -> None:
    """Make this the only way in which this process logs, and keep values out of what it prints."""
    sys.stdout, sys.stderr = RedactedStream(sys.stdout, redaction), RedactedStream(sys.stderr, redaction)
    logging.basicConfig(level=logging.INFO, handlers=[JsonLines(redaction)], force=True)
    logging.captureWarnings(True)
