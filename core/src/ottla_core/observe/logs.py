"""Logs of a service: structured events, as JSON lines or, on a terminal, in colours.

Every event carries the time (UTC), the level, the service and the key-value pairs of the call. Messages of
libraries that use the standard library's logging come out the same way.
"""

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog

from ottla_core.observe.log_levels import LEVELS, ROOT


class _LossyStream:
    """A stream that loses lines rather than fail.

    Logs often lie on the disk that has just filled up, and reporting that must not break the handling of it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or lose the text."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed; the rest is tried again with the next line."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Return whether a person may be looking."""
        return self._stream.isatty()


SEVERITIES = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
KAFKA_LEVELS = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}


class _NamedLogger(structlog.PrintLogger):
    """A logger that knows its name, by which its level is found."""

    def __init__(self, name: str, file: TextIO) -> None:
        super().__init__(file)
        self.name = name


def _leave_out(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Drop what is less severe than the logger's level, which may have changed since the start."""
    number = structlog.processors.NAME_TO_LEVEL.get(method, logging.CRITICAL)
    if isinstance(logger, _NamedLogger) and not LEVELS.shows(logger.name, number):
        raise structlog.DropEvent
    return event


def configure_logs(service: str, *, level: str = "info", stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging for this process.

    Args:
        service: name put into every event, for example ``broker-1``.
        level: the least severe level that loggers show, until `log_levels.LEVELS` is changed; a key of `SEVERITIES`.
        stream: where the lines go; standard error by default.
    """
    target = cast("TextIO", _LossyStream(stream or sys.stderr))
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor
    if target.isatty():
        renderer = structlog.dev.ConsoleRenderer()
        shared.remove(structlog.processors.format_exc_info)
    else:
        renderer = structlog.processors.JSONRenderer(default=str)

    def name_service(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event.setdefault("service", service)
        return event

    def make_logger(name: str = ROOT, *_arguments: object) -> _NamedLogger:
        return _NamedLogger(name, target)

    LEVELS.begin(KAFKA_LEVELS[level])
    structlog.configure(
        processors=[_leave_out, name_service, *shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=make_logger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[name_service, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(SEVERITIES[level], logging.WARNING), force=True)
