"""ConsumerGroupHeartbeat (key 68): how members of the consumer protocol (KIP-848) join, go on and leave."""

from ottla_broker.groups.group_requests import relay as handle

__all__ = ["handle"]
