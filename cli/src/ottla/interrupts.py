"""Ctrl-C, which ends a command wherever it comes.

Python raises KeyboardInterrupt in whatever the main thread is doing. Where that is a callback of a weak reference or
a finalizer, as after each import, the exception is told on standard error and lost, and the command would go on. So
the hook that would tell of it has a thread send the signal again. Should that come while the main thread is still in
the hook, where the exception would be lost for good, nothing is raised, and it is sent once more.
"""

import signal
import sys
import threading
import time
from queue import SimpleQueue
from types import FrameType
from typing import Final

RAISED_AGAIN_AFTER_S: Final = 0.01
"""By then the callback in which the exception was lost has most likely returned; else it is raised once more."""


class Interrupts:
    """The SIGINTs that came."""

    def __init__(self) -> None:
        self.count = 0
        self._is_owed = self._is_sent = False
        self._lost: SimpleQueue[None] = SimpleQueue()  # a signal's handler may interrupt its `put`
        self._sender: threading.Thread | None = None

    def take_over(self) -> None:
        """Count them and see that none is lost, unless they are ignored, as in a job in the background."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return
        signal.signal(signal.SIGINT, self._note)
        self._tell = sys.unraisablehook
        sys.unraisablehook = self._raise_again

    def take_owed(self) -> bool:
        """Return whether one was lost and has not been raised again; it is not any more."""
        is_owed, self._is_owed = self._is_owed, False
        return is_owed

    def _note(self, number: int, frame: FrameType | None) -> None:
        is_sent, self._is_sent = self._is_sent, False
        if _is_in_hook(frame):
            self._owe()
            return
        if is_sent and not self._is_owed:
            return  # it was sent twice, and is raised already
        self._is_owed = False
        self.count += 1
        signal.default_int_handler(number, frame)

    def _raise_again(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if unraisable.exc_type is not KeyboardInterrupt:
            self._tell(unraisable)
            return
        self._owe()
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_again, name="interrupts", daemon=True)
            self._sender.start()

    def _owe(self) -> None:
        self._is_owed = True
        self._lost.put(None)

    def _send_again(self) -> None:
        """Send the signal until it is raised: the main thread may just go to wait, and not be woken by the first.

        It is sent to that thread, as only a signal of its own ends the call in which it waits.
        """
        main_thread = threading.main_thread().ident or 0
        while True:
            self._lost.get()
            while self._is_owed:
                time.sleep(RAISED_AGAIN_AFTER_S)
                if self._is_owed:
                    self._is_sent = True
                    signal.pthread_kill(main_thread, signal.SIGINT)


def _is_in_hook(frame: FrameType | None) -> bool:
    """Return whether a frame is the hook's, or one that it has called."""
    while frame is not None:
        if frame.f_code is Interrupts._raise_again.__code__:  # noqa: SLF001
            return True
        frame = frame.f_back
    return False
