"""LeaveGroup (key 13): members leave their group."""

from ottla_broker.groups.group_requests import relay as handle

__all__ = ["handle"]
