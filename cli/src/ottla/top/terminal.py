"""A terminal that is taken over for a while: a screen of its own, and keys as they are pressed."""

import os
import select
import shutil
import sys
import termios
import time
import tty
from types import TracebackType
from typing import Self

OTHER_SCREEN, FORMER_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Also hide and show the cursor."""
BEGINNING, REST_OF_LINE, REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
SIZE_DEFAULT = (80, 24)
KEYS_BYTES_MAX = 1024


class Terminal:
    """The terminal of this process, while it is open."""

    def __init__(self) -> None:
        self._keyboard = sys.stdin.fileno()
        self._former = termios.tcgetattr(self._keyboard)

    @classmethod
    def of_this_process(cls) -> Self | None:
        """Return it; None if there is none at standard input or output."""
        return cls() if sys.stdin.isatty() and sys.stdout.isatty() else None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return shutil.get_terminal_size(SIZE_DEFAULT)

    def __enter__(self) -> Self:
        tty.setcbreak(self._keyboard)
        sys.stdout.write(OTHER_SCREEN)
        sys.stdout.flush()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, self._former)
        sys.stdout.write(FORMER_SCREEN)
        sys.stdout.flush()

    def show(self, text: str) -> None:
        """Replace what is on the screen."""
        lines = "".join(f"{line}{REST_OF_LINE}\n" for line in text.split("\n")).removesuffix("\n")
        sys.stdout.write(f"{BEGINNING}{lines}{REST_OF_SCREEN}")
        sys.stdout.flush()

    def key(self, within_s: float) -> str:
        """Return what is pressed next, or nothing if it is not in time; at the end of input, ``q``.

        An arrow is several bytes, and a hasty user is quicker than a screen, so all that is there is taken at once.
        It is read past Python's buffer: what waited there `select` would not see.
        """
        until_s = time.monotonic() + within_s
        while (left_s := until_s - time.monotonic()) > 0:
            if select.select([self._keyboard], [], [], left_s)[0]:
                return os.read(self._keyboard, KEYS_BYTES_MAX).decode(errors="replace") or "q"
        return ""
