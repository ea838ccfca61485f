"""Roles of users who sign in with OpenID Connect. Pure."""

from enum import IntEnum


class Role(IntEnum):
    """What somebody may do with the console's own credentials; each has what those before it have."""

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3

    @property
    def title(self) -> str:
        """How settings and pages call it."""
        return self.name.lower()
