"""A herder and its worker for the tests here; the processes of a file's tests have one launcher."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ottla_connect.processes.host import ProcessHost
from tests.support.connect.herder_parts import HerderParts
from tests.support.connect.scripted_connectors import ENTRY


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host() -> AsyncIterator[ProcessHost]:
    host = ProcessHost(entry=ENTRY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))  # where the launcher finds the script
        await host.start()
    yield host
    await host.close()


@pytest_asyncio.fixture(loop_scope="module")
async def parts(host: ProcessHost, tmp_path: Path) -> AsyncIterator[HerderParts]:
    parts = await HerderParts(host, tmp_path).start()
    yield parts
    await parts.close()
