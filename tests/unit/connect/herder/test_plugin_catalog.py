"""The catalogue of plugins knows all classes, or says that it does not."""

import pytest

from ottla_connect.herder import plugin_catalog
from tests.support.connect.herder_parts import HerderParts as Parts
from tests.support.connect.scripted_connectors import CLASS

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_all_classes_are_told(parts: Parts):
    assert {each.class_name for each in await parts.catalog.all_classes([CLASS])} == {CLASS}


async def test_an_unknown_name_makes_it_look_for_plugins_that_were_installed_meanwhile(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    looks = []
    monkeypatch.setattr(plugin_catalog, "entry_points", lambda *, group: looks.append(group) or [])
    assert await parts.catalog.all_classes([CLASS, " Source "])
    assert not looks
    assert not await parts.catalog.all_classes([CLASS, "Sorce"])
    assert len(looks) == 1


async def test_where_a_plugin_is_broken_no_class_counts_as_known_to_be_missing(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
):
    broken = plugin_catalog.PluginsListed(plugins=[], error="it cannot be imported")
    listed = dict.fromkeys(parts.catalog._listed, broken)
    monkeypatch.setattr(parts.catalog, "_listed", listed)
    assert await parts.catalog.all_classes([CLASS]) == []
