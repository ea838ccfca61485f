"""How a service process starts, hears that it should stop, and ends.

`run_service` gives the service's coroutine an event that SIGTERM or SIGINT sets. The service then closes what it
opened and returns; if that takes long its log says what it waits for, and a second signal ends the process at once.
Exit codes: 0 a clean stop, 1 a failure (one line on standard error says what failed), 2 bad configuration.
"""

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from ottla_core.background import background, note_failure, start_awaited
from ottla_core.errors import ConfigurationError, OttlaError
from ottla_core.slow_stop import report_slow_stop

EXIT_CLEAN = 0
EXIT_FAILURE = 1
EXIT_BAD_CONFIGURATION = 2

ORDERLY_END_S = 30.0
"""How long a process in which a vital task has failed may take to end in order."""

GC_YOUNG_THRESHOLD = 50_000
"""Objects allocated between two runs of the cyclic collector; the default of 700 costs a busy service CPU."""


def run_service(
    name: str,
    main: Callable[[asyncio.Event], Awaitable[None]],
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Run a service until it returns or is told to stop.

    Args:
        name: the service's name in messages, such as ``ottla-broker``.
        main: the service; it is given the event that asks it to stop.
        new_event_loop: makes the event loop; asyncio's own by default.

    Returns:
        The process's exit code.
    """
    raise_open_files_limit()
    gc.set_threshold(GC_YOUNG_THRESHOLD, 20, 50)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_run(name, main))
    except ConfigurationError as error:
        print(f"{name}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_BAD_CONFIGURATION
    except (OttlaError, OSError) as error:
        structlog.get_logger(name).error("service failed", error=str(error), exc_info=not str(error))
        print(f"{name}: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_FAILURE
    return EXIT_CLEAN


async def _run(name: str, main: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(received: signal.Signals) -> None:
        if stop.is_set():
            os._exit(EXIT_FAILURE)
        structlog.get_logger(name).info("stopping", signal=received.name)
        stop.set()
        report_slow_stop(loop)

    for received in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(received, on_signal, received)
    loop.set_exception_handler(_report_callback)
    # What a vital task did may be what the end waits for.
    background().vital_failure.add_done_callback(
        lambda failed: None if failed.cancelled() else loop.call_later(ORDERLY_END_S, os._exit, EXIT_FAILURE)
    )
    await main(stop)


def _report_callback(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Note what asyncio itself has caught: a callback that raised, a future whose exception nobody has asked for."""
    error = context.get("exception")
    if isinstance(error, Exception):
        note_failure("callback", error, reason=context.get("message"))
    else:
        structlog.get_logger("asyncio").error(context.get("message"), error=repr(error))


async def _vital_failure() -> OttlaError:
    return await asyncio.shield(background().vital_failure)


async def wait_for_end(stop: asyncio.Event, *failures: Coroutine[Any, Any, OttlaError | None]) -> None:
    """Return when the process shall stop, raise when it must, also because a vital task has failed.

    Args:
        stop: set when it shall.
        failures: each waits for something that ends the process, and returns or raises the error.
    """
    stopped = start_awaited("stop", stop.wait())
    failed = [start_awaited("failure", failure) for failure in (_vital_failure(), *failures)]
    try:
        await asyncio.wait((stopped, *failed), return_when=asyncio.FIRST_COMPLETED)
        for failure in failed:
            if failure.done() and (error := failure.result()) is not None:
                raise error
    finally:
        for task in (stopped, *failed):
            task.cancel()
        await asyncio.gather(stopped, *failed, return_exceptions=True)


def raise_open_files_limit() -> None:
    """Raise the soft limit of open files to the hard one; a broker holds a file per active segment."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def open_files_limit() -> int:
    """Return how many file descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
