"""A REST API over a scripted herder, without sockets."""

from collections.abc import AsyncIterator
from functools import cache

import httpx
import pytest
from fastapi import FastAPI

from ottla_connect.rest.application import create_application
from ottla_connect.rest.options import RestOptions
from tests.unit.connect.rest.scripted_herder import ScriptedHerder

OWN_URL = "http://worker-1:8083"


@pytest.fixture
def herder() -> ScriptedHerder:
    return ScriptedHerder()


@pytest.fixture
def options() -> RestOptions:
    """Overridden by tests that need others."""
    return RestOptions()


@pytest.fixture
async def rest(herder: ScriptedHerder, options: RestOptions) -> AsyncIterator[httpx.AsyncClient]:
    application = _application(options)
    application.state.herder = herder
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url=OWN_URL) as client:
        yield client


@cache
def _application(options: RestOptions) -> FastAPI:
    """Making one takes longer than asking it many times."""
    return create_application(ScriptedHerder(), own_url=OWN_URL, options=options)
