"""Client settings that a command's surroundings know for a cluster: those of a profile, or of a local cluster.

The variable `OTTLA_CLIENT_SETTINGS` has them as JSON, `{"bootstrap": "HOST:PORT,…", "client": {…}}`, with references
in place of secrets. They are for the brokers that stand there, and are sent to no others.
"""

import json
from collections.abc import Mapping
from typing import Final

from ottla_sdk.local_references import resolved

VARIABLE: Final = "OTTLA_CLIENT_SETTINGS"


def written_settings(bootstrap: str, settings: Mapping[str, str]) -> str:
    """Return what `known_settings` reads, for a cluster at these addresses."""
    return json.dumps({"bootstrap": bootstrap, "client": dict(settings)})


def known_settings(bootstrap: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for clients of brokers at these addresses; none if they are of another cluster.

    Raises:
        BadReference: what a setting refers to is not there.
    """
    text = environment.get(VARIABLE)
    if not text:
        return {}
    document = json.loads(text)
    if not set(bootstrap.split(",")) <= set(document["bootstrap"].split(",")):
        return {}
    return {key: resolved(value, environment) for key, value in document["client"].items()}
