"""What each role may do, as a table; for users whose connections are made with the console's own credentials. Pure.

Viewers look, editors work with topics, messages, groups and connectors, admins with all there is, as in the consoles
that people know. An action that is not in the table is for admins, so a new one is never open by oversight.
"""

from collections.abc import Mapping
from typing import Final

from ottla_console.config.roles import Role

ACTIONS: Final[Mapping[str, Role]] = {
    "topic.create": Role.EDITOR,
    "topic.set": Role.EDITOR,
    "topic.add-partitions": Role.EDITOR,
    "topic.empty": Role.EDITOR,
    "topic.delete": Role.EDITOR,
    "message.publish": Role.EDITOR,
    "dead-letter.send-again": Role.EDITOR,
    "group.reset-offsets": Role.EDITOR,
    "group.delete": Role.EDITOR,
    "connector.create": Role.EDITOR,
    "connector.change": Role.EDITOR,
    "connector.pause": Role.EDITOR,
    "connector.resume": Role.EDITOR,
    "connector.stop": Role.EDITOR,
    "connector.restart": Role.EDITOR,
    "connector.restart-failed": Role.EDITOR,
    "connector.restart-task": Role.EDITOR,
    "connector.reset-offsets": Role.EDITOR,
    "connector.delete": Role.EDITOR,
    "mirror.verify": Role.EDITOR,
    "mirror.verify-end": Role.EDITOR,
    "mirror.pause": Role.ADMIN,
    "mirror.resume": Role.ADMIN,
    "link.pause": Role.ADMIN,
    "link.resume": Role.ADMIN,
    "link.promote": Role.ADMIN,
    "cluster.elect-preferred-leaders": Role.ADMIN,
    "cluster.rebalance": Role.ADMIN,
    "broker.decommission": Role.ADMIN,
    "broker.unregister": Role.ADMIN,
    "moves.begin-no-more": Role.ADMIN,
    "moves.cancel": Role.ADMIN,
    "user.create": Role.ADMIN,
    "user.password": Role.ADMIN,
    "user.delete": Role.ADMIN,
    "acl.create": Role.ADMIN,
    "acl.delete": Role.ADMIN,
    "quota.set": Role.ADMIN,
    "quota.remove": Role.ADMIN,
}
"""Who may do it, by the action's name in the audit log."""
SECTIONS: Final[Mapping[str, Role]] = {"security": Role.ADMIN, "state": Role.ADMIN}
"""Who may look at pages that are not for every viewer, by their entry of the navigation."""


def role_of_action(name: str) -> Role:
    """Return the least role that may do something."""
    return ACTIONS.get(name, Role.ADMIN)


def role_of_page(section: str, *, changes: bool) -> Role:
    """Return the least role that may ask for a page.

    Args:
        section: its entry of the navigation.
        changes: whether it takes forms.
    """
    return max(SECTIONS.get(section, Role.VIEWER), Role.EDITOR if changes else Role.VIEWER)


def why_not(user: str, role: Role | None, needed: Role, what: str) -> str | None:
    """Return why a role does not allow something; None where it does."""
    if role is not None and role >= needed:
        return None
    has = "has no role here" if role is None else f"has the role {role.title}"
    return f"{what} takes the role {needed.title}, and {user} {has}; groups at the OpenID provider give roles"
