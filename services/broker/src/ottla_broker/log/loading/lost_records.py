"""From which offset on a log lacks committed records, because its disk has lost them.

Such a log is whole again when it was cut there and copied from another replica. Until then every start has to know,
but recovery takes the damage out of the log's files, and finds it once only. So before it does, it leaves the file
`lost-from` in the partition's directory; the checkpoint of the log directory takes it over (`store_loading.py`).
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from ottla_broker.log.files.checkpoint_file import replace_file

LOST_FROM: Final = "lost-from"

_logger: Final = structlog.get_logger("log.recovery")


def note_lost_from(directory: Path, offset: int) -> None:
    """Note in a partition's directory that records are lost from an offset on; blocks and raises OSError."""
    known = read_lost_from(directory)
    if known is None or offset < known:
        replace_file(directory / LOST_FROM, f"{offset}\n")


def read_lost_from(directory: Path) -> int | None:
    """Return what was noted, or None; what is unreadable counts as the log's beginning. Raises OSError."""
    try:
        text = (directory / LOST_FROM).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return None
    try:
        return int(text)
    except ValueError:
        _logger.warning("it is not known which records are lost: all are copied again", directory=str(directory))
        return 0


def forget_lost_from(directory: Path) -> None:
    """Remove the note, which is in a checkpoint by now; blocks and raises OSError."""
    with suppress(FileNotFoundError):
        (directory / LOST_FROM).unlink()
