"""What both ends of a group relay stream must agree on, besides the messages in ``group_relay.proto``."""

BROKER_ID_METADATA = "broker-id"
BROKER_EPOCH_METADATA = "broker-epoch"
"""Names in the call's metadata, by which a broker says who it is; the values are decimal numbers."""

ALL_SHARDS = -1
"""In place of a shard: every shard that the coordinator owns; for ListGroups."""
