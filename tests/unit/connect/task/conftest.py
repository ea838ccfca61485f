"""The test plugins are installed for all tests here."""

import sys
from collections.abc import Iterator

import pytest

from tests.support.connect.connect_plugin_path import BROKEN_PLUGINS, WORKING_PLUGINS


@pytest.fixture(autouse=True, scope="session")
def _test_plugins() -> Iterator[None]:
    sys.path.insert(0, str(WORKING_PLUGINS))
    yield
    sys.path.remove(str(WORKING_PLUGINS))


@pytest.fixture
def broken_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BROKEN_PLUGINS)
