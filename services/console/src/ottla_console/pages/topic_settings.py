"""The settings of a topic: where each value comes from, what it means; changing them."""

from typing import Final

from starlette.responses import Response

from ottla_console.clusters.cluster_kit import ClusterKit
from ottla_console.pages.routing import View
from ottla_console.pages.topic import topic_row
from ottla_console.pages.visit import BadForm, Visit
from ottla_operations.cluster.cluster_view import TOPIC_RESOURCE, ConfigChange
from ottla_operations.cluster.described_configs import DescribedConfig, described_configs

VALUE_CHARACTERS_MAX: Final = 32_768


async def settings(visit: Visit) -> Response:
    """Show the settings, those of the topic itself first."""
    _, row = await topic_row(visit)
    found = await visit.ask(lambda kit: _described(kit, row.name))
    words = visit.query("q").lower().split()
    shown = [each for each in found if all(word in f"{each.name} {each.documentation}".lower() for word in words)]
    shown.sort(key=lambda each: not each.is_own)
    return visit.render("topic_settings.html", topic=row, settings=shown, q=visit.query("q"), tab="settings")


async def change(visit: Visit) -> Response:
    """Set a value, or have the topic follow the brokers' again."""
    _, row = await topic_row(visit)
    name, is_reset = visit.form.get("name", ""), visit.form.get("reset") == "yes"
    value = None if is_reset else visit.form.get("value", "")
    if not name or len(name) > 249 or (value is not None and len(value) > VALUE_CHARACTERS_MAX):
        raise BadForm("name a setting, and a value that is not too long")
    changes = [ConfigChange(TOPIC_RESOURCE, row.name, name, value)]

    def effect(kit: ClusterKit) -> None:
        with kit.cluster_admin() as admin:
            admin.alter_configs(changes)

    await visit.act("topic.set", row.name, lambda: visit.ask(effect), setting=name, value=value)
    told = f"{name} follows the brokers again." if is_reset else f"{name} was set."
    return visit.redirect(visit.address("topics", row.name, "settings"), notice=told)


def _described(kit: ClusterKit, topic: str) -> list[DescribedConfig]:
    with kit.cluster_admin() as admin:
        return described_configs(admin, TOPIC_RESOURCE, topic)


VIEWS: Final = (
    View("/topics/{topic:segment}/settings", settings, "topics"),
    View("/topics/{topic:segment}/settings", change, "topics", method="POST"),
)
