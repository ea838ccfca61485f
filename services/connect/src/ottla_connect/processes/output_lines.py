"""Lines out of what a process writes to its standard output and error. Pure.

A log record of the runtime is a line of JSON, `{"level", "logger", "message", "trace"}`; whatever else comes (a
print, a native library's or faulthandler's report) is passed on as it is, as level info.
"""

from collections.abc import Iterator

import msgspec

LINE_BYTES_MAX = 64 * 1024
PLAIN_LEVEL = "info"
LEVELS = ("debug", "info", "warning", "error", "critical")


class OutputLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a process wrote.

    Attributes:
        level: one of `LEVELS`.
        logger: the logger's name; empty if it is no log record.
        message: the text.
        trace: the trace of an exception, of several lines; empty if there is none.
    """

    level: str
    message: str
    logger: str = ""
    trace: str = ""

    def texts(self) -> Iterator[str]:
        """Return the lines to show, without line ends."""
        head = f"{self.level.upper()} {self.logger}: {self.message}" if self.logger else self.message
        yield from head.splitlines() or [""]
        yield from self.trace.splitlines()


class LineSplitter:
    """Cuts output into lines; of a line that is too long the rest is left out, and the line says so."""

    def __init__(self, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._begun = bytearray()
        self._left_out = 0

    def feed(self, output: bytes) -> Iterator[bytes]:
        """Take output, and return the lines that are whole now; empty ones are left out."""
        *ends, begun = output.split(b"\n")
        for end in ends:
            self._extend(end)
            yield from self.flush()
        self._extend(begun)

    def flush(self) -> Iterator[bytes]:
        """Return what has no line end yet, if there is something."""
        if self._left_out:
            self._begun += f" … ({self._left_out} bytes more)".encode()
        line = bytes(self._begun).rstrip(b"\r")
        self._begun.clear()
        self._left_out = 0
        if line:
            yield line

    def _extend(self, part: bytes) -> None:
        room = self._bytes_max - len(self._begun)
        self._begun += part[:room]
        self._left_out += max(0, len(part) - room)


class _LogRecord(msgspec.Struct):
    level: str
    logger: str
    message: str
    trace: str = ""


_log_record = msgspec.json.Decoder(_LogRecord)


def parse_line(line: bytes) -> OutputLine:
    """Return what a line says."""
    if line.startswith(b"{"):
        try:
            record = _log_record.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return _plain(line)
        level = record.level.lower()
        return OutputLine(
            level=level if level in LEVELS else PLAIN_LEVEL,
            logger=record.logger,
            message=record.message,
            trace=record.trace,
        )
    return _plain(line)


def _plain(line: bytes) -> OutputLine:
    return OutputLine(level=PLAIN_LEVEL, message=line.decode(errors="backslashreplace"))
