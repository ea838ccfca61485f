"""Heartbeat (key 12): a sign of life of a member, answered by the group's coordinator."""

from ottla_broker.groups.group_requests import relay as handle

__all__ = ["handle"]
