"""A follower's link to a leader: where a login is about to expire, another connection follows at once."""

import asyncio
import math
from typing import Any

from ottla_broker.replication.fetch_settings import FetchSettings, LeaderAddress
from ottla_broker.replication.leader_link import LeaderLink
from ottla_core.wire.replica_fetch_request import FetchLimits
from tests.support.eventually_async import eventually_async

LEADER = LeaderAddress(2, 7, "127.0.0.1", 9092)
SETTINGS = FetchSettings(
    broker_id=1,
    limits=FetchLimits(wait_ms_max=1, bytes_min=1, bytes_max=1000),
    partition_bytes_max=1000,
    backoff_ms=60_000,
    socket_timeout_ms=200,
    frame_bytes_max=1000,
)


class Connection:
    """An open connection on which a fetch waits."""

    awaits_fetch = awaits_answer = True

    def __init__(self, usable_until: float) -> None:
        self.last_active = math.inf
        self.usable_until = usable_until
        self.is_closed = False
        self.reasons: list[str] = []

    def close(self, reason: str = "") -> None:
        self.is_closed = True
        self.reasons.append(reason)


def test_a_login_that_is_about_to_expire_is_followed_by_another() -> None:
    async def run() -> None:
        made: list[Connection] = []
        lost: list[bool] = []

        async def open_connection() -> Any:
            made.append(Connection(-1.0 if not made else math.inf))
            return made[-1]

        link = LeaderLink(LEADER, SETTINGS, open_connection, lambda: None, lambda: lost.append(True))
        keeping = asyncio.ensure_future(link.keep())
        try:
            await eventually_async(lambda: len(made) == 2, "there is another connection")
            assert made[0].reasons == ["its login is about to expire"]
            assert lost == [True]
            assert [link.connection] == made[1:]
            assert not made[1].is_closed
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(run())
