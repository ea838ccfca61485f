"""TeamAuthorizer: who is in a team may do everything with the topics and groups whose names begin with the team's.

The file of teams is JSON, such as {"weather": ["ann", "bob"]}: `User:ann` may do everything with `weather.readings`.
For everything else the cluster's access control lists decide. A thread reads the file again and again, so that no
question waits for a disk; while the file cannot be read, what was read before holds.
"""

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ottla_sdk import (
    AccessRequest,
    Authorizer,
    AuthorizerContext,
    FatalError,
    PluginConfig,
    Principal,
    ResourceType,
    setting,
)

OWNED = frozenset({ResourceType.TOPIC, ResourceType.GROUP})
log = logging.getLogger(__name__)


class TeamAuthorizerConfig(PluginConfig):
    """Settings of TeamAuthorizer."""

    file: Path = setting("authorizer.teams.file", doc="JSON file with the members of each team.")
    check_s: float = setting(
        "authorizer.teams.check.seconds", 5.0, doc="Seconds between two looks at the file.", gt=0
    )
    administrators: str = setting("super.users", "", doc="The broker's own setting: who may do everything.")


class TeamAuthorizer(Authorizer[TeamAuthorizerConfig]):
    """Goes by teams, and by access control lists."""

    config_model = TeamAuthorizerConfig
    answers_hold_ms: ClassVar[int | None] = 1000
    uses_access_lists: ClassVar[bool] = True

    def start(self, context: AuthorizerContext) -> None:
        """Read the file, and begin to look at it.

        Raises:
            FatalError: it cannot be read.
        """
        super().start(context)
        self._administrators = frozenset(filter(None, self.config.administrators.split(";")))
        try:
            self._teams = teams_of(self.config.file)
        except (OSError, ValueError) as error:
            raise FatalError(f"authorizer.teams.file={self.config.file}: {error}") from error
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="teams", daemon=True)
        self._thread.start()

    def authorize(self, request: AccessRequest) -> bool:
        """Return whether a team of the client owns the resource, or access control lists allow it."""
        if self.allows_everything(request.principal):
            return True
        if request.resource_type in OWNED:
            team, dot, _ = request.resource_name.partition(".")
            if dot and str(request.principal) in self._teams.get(team, ()):
                return True
        return bool(self.context.access_lists.decide(request))

    def authorize_any(self, request: AccessRequest) -> bool:
        """Return whether the client is in a team, or access control lists allow it."""
        if self.allows_everything(request.principal):
            return True
        if request.resource_type in OWNED and any(str(request.principal) in each for each in self._teams.values()):
            return True
        return self.context.access_lists.allow_any(request)

    def allows_everything(self, principal: Principal) -> bool:
        """Return whether a principal is among `super.users`."""
        return str(principal) in self._administrators

    def close(self) -> None:
        """Look at the file no more."""
        if hasattr(self, "_closing"):
            self._closing.set()
            self._thread.join()

    def _keep(self) -> None:
        while not self._closing.wait(self.config.check_s):
            try:
                self._teams = teams_of(self.config.file)
            except (OSError, ValueError) as error:
                log.error("the teams stay as they were: %s: %s", self.config.file, error)


def teams_of(file: Path) -> Mapping[str, frozenset[str]]:
    """Return the principals of each team, as TYPE:NAME.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not JSON of the form {TEAM: [USER, …]}.
    """
    teams = json.loads(file.read_text())
    if not isinstance(teams, dict) or not all(isinstance(each, list) for each in teams.values()):
        raise ValueError("not of the form {TEAM: [USER, …]}")
    return {team: frozenset(f"User:{each}" for each in members) for team, members in teams.items()}
