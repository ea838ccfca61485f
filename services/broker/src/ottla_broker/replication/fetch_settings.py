"""Which leader a fetcher fetches from, and what all fetchers share."""

from typing import NamedTuple

from ottla_core.wire.replica_fetch_request import FetchLimits


class LeaderAddress(NamedTuple):
    """A leader's listener for brokers, under one registration."""

    broker_id: int
    broker_epoch: int
    host: str
    port: int


class FetchSettings(NamedTuple):
    """What all fetchers share; see the broker's settings `replica.fetch.*`."""

    broker_id: int
    limits: FetchLimits
    partition_bytes_max: int
    backoff_ms: int
    socket_timeout_ms: int
    frame_bytes_max: int
