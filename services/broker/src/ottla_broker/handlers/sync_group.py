"""SyncGroup (key 14): a member asks for its assignment, the leader of its group brings all of them."""

from ottla_broker.groups.group_requests import relay as handle

__all__ = ["handle"]
