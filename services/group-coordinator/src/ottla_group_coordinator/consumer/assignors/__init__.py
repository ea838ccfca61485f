"""The server-side assignors: pure functions that decide which member shall own which partition.

An assignor is given the members' subscriptions, how many partitions each topic has, and the present target
assignment. It returns a new target assignment with an entry for every member. It knows nothing of epochs or of who
owns what at the moment; `reconciliation` gets the members there.
"""

from collections.abc import Mapping

from ottla_group_coordinator.consumer.assignors.range_assignor import assign_by_range
from ottla_group_coordinator.consumer.assignors.subscriber import Assignor, Subscriber
from ottla_group_coordinator.consumer.assignors.uniform_assignor import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_by_range}
"""By the name that members ask for."""

__all__ = ["ASSIGNORS", "Assignor", "Subscriber"]
