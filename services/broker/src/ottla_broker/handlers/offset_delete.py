"""OffsetDelete (key 47): a group's offsets of some topics are forgotten."""

from ottla_broker.groups.group_requests import relay as handle

__all__ = ["handle"]
