"""Topics to create, with ids that are drawn here."""

from typing import Any

from ottla_core.cluster.controller_rpc.controller_api import NewTopic
from ottla_core.random_ids import random_uuid


def new_topic(name: str, **wanted: Any) -> NewTopic:
    """A topic to create; everything else of it is as little as a caller may say, unless given."""
    return NewTopic(**{"name": name, "topic_id": random_uuid(), **wanted})
