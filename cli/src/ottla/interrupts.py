"""Ctrl-C, which ends a command wherever it comes.

Python raises KeyboardInterrupt in whatever the main thread is doing. Where that is a callback of a weak reference or
a finalizer, as after each import, the exception is told on standard error and lost, and the command would go on.
"""

import signal
import sys
import threading
from types import FrameType
from typing import Final

RAISED_AGAIN_AFTER_S: Final = 0.01
"""By then the callback in which the exception was lost has most likely returned; else it is raised once more."""


class Interrupts:
    """The SIGINTs that came."""

    def __init__(self) -> None:
        self.count = 0

    def take_over(self) -> None:
        """Count them and see that none is lost, unless they are ignored, as in a job in the background."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        signal.signal(signal.SIGINT, self._note)
        self._tell = sys.unraisablehook
        sys.unraisablehook = self._raise_again

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        signal.default_int_handler(number, frame)

    def _raise_again(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            self._tell(unraisable)
            return
        main_thread = threading.main_thread().ident or 0
        again = threading.Timer(RAISED_AGAIN_AFTER_S, signal.pthread_kill, (main_thread, signal.SIGINT))
        again.daemon = True
        again.start()  # to the main thread: only a signal of its own ends the call in which it waits
