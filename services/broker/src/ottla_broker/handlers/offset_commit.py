"""OffsetCommit (key 8): how far a group has come, kept by the group's coordinator."""

from ottla_broker.groups.group_requests import relay as handle

__all__ = ["handle"]
