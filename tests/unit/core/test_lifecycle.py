"""How a service learns that it has to end."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla_core.errors import OttlaError
from ottla_core.lifecycle import wait_for_end


async def never() -> OttlaError:
    await asyncio.Event().wait()
    raise AssertionError


async def returned() -> OttlaError:
    return OttlaError("gone")


async def raised() -> None:
    raise OttlaError("gone")


async def test_a_service_that_is_told_to_stop_ends_in_peace() -> None:
    stop = asyncio.Event()
    ending = asyncio.create_task(wait_for_end(stop, never()))
    stop.set()
    await ending


@pytest.mark.parametrize("failure", [returned, raised])
async def test_a_failure_that_is_returned_or_raised_ends_the_service(failure: Any) -> None:
    failing: Coroutine[Any, Any, OttlaError | None] = failure()
    with pytest.raises(OttlaError, match="gone"):
        await wait_for_end(asyncio.Event(), never(), failing)


async def test_a_failure_prevails_over_a_stop() -> None:
    stop = asyncio.Event()
    stop.set()
    with pytest.raises(OttlaError, match="gone"):
        await wait_for_end(stop, returned())


async def test_nothing_is_left_running_when_the_end_has_come() -> None:
    stop = asyncio.Event()
    stop.set()
    await wait_for_end(stop, never(), never())
    assert asyncio.all_tasks() == {asyncio.current_task()}
