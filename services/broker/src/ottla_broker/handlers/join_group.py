"""JoinGroup (key 11): a member joins its group; answered when the coordinator has rebalanced the group."""

from ottla_broker.groups.group_requests import relay as handle

__all__ = ["handle"]
