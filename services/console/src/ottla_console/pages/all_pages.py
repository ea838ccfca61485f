"""Every page of the console, and the navigation: a page's file is a line here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla_console.pages import (
    brokers,
    connect,
    connector,
    connector_actions,
    connector_form,
    connector_offsets,
    dead_letters,
    elections,
    events,
    group,
    group_reset,
    groups,
    home,
    messages,
    mirrors,
    moves,
    openid,
    overview,
    pipeline,
    placement,
    publish,
    security_acls,
    security_audit,
    security_quotas,
    security_users,
    sign_in,
    spark,
    state,
    topic,
    topic_consumers,
    topic_growth,
    topic_query,
    topic_settings,
    topic_tail,
    topics,
    verification,
)
from ottla_console.pages.routing import View


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation: its id, as `View.section` has it, its title, and its path below a cluster's."""

    id: str
    title: str
    path: str


NAVIGATION: Final[Sequence[Section]] = (
    Section("overview", "Overview", ""),
    Section("topics", "Topics", "/topics"),
    Section("groups", "Groups", "/groups"),
    Section("brokers", "Brokers", "/brokers"),
    Section("mirrors", "Mirrors", "/mirrors"),
    Section("events", "Events", "/events"),
    Section("security", "Security", "/security/users"),
    Section("state", "State", "/state"),
    Section("connect", "Connect", "/connect"),
    Section("spark", "Spark", "/spark"),
)
VIEWS: Final[Sequence[View]] = (
    *home.VIEWS,
    *sign_in.VIEWS,
    *openid.VIEWS,
    *overview.VIEWS,
    *events.VIEWS,
    *topics.VIEWS,
    *topic.VIEWS,
    *topic_consumers.VIEWS,
    *topic_growth.VIEWS,
    *topic_settings.VIEWS,
    *messages.VIEWS,
    *topic_tail.VIEWS,
    *topic_query.VIEWS,
    *pipeline.VIEWS,
    *publish.VIEWS,
    *groups.VIEWS,
    *group.VIEWS,
    *group_reset.VIEWS,
    *brokers.VIEWS,
    *elections.VIEWS,
    *placement.VIEWS,
    *moves.VIEWS,
    *security_users.VIEWS,
    *security_acls.VIEWS,
    *security_quotas.VIEWS,
    *security_audit.VIEWS,
    *mirrors.VIEWS,
    *verification.VIEWS,
    *state.VIEWS,
    *connect.VIEWS,
    *connector.VIEWS,
    *connector_actions.VIEWS,
    *connector_form.VIEWS,
    *connector_offsets.VIEWS,
    *dead_letters.VIEWS,
    *spark.VIEWS,
)
