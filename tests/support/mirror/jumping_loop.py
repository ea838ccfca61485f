"""An event loop whose clock jumps to whatever is due next, so that pauses and time-outs take no time in a test."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
RESOLUTION_S = 1e-6
"""Less than what a sum of floating-point numbers may lack, the clock would stand still for ever."""


class _Jumping(selectors.SelectSelector):
    """Waits for nothing, and has the loop's clock go on in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "nothing is due any more, and somebody waits"
        self.now_s += max(timeout, RESOLUTION_S)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """The loop; its time begins at 0."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return its time, in seconds."""
        return self._jumping.now_s


def run_in_jumps(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs a coroutine to its end in such a loop, and cancels what is left of others."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)
