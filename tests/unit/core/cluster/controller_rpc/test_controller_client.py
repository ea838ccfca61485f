"""What is said where a controller was not asked; the calls themselves are tried with real controllers."""

import pytest

from ottla_core.cluster.controller_rpc.controller_api import ElectionType
from ottla_core.cluster.controller_rpc.controller_client import ControllerClient
from ottla_core.cluster.state.model import ClusterState, ControllerLeader
from ottla_core.errors import RequestTimedOut
from tests.support.groups.group_cluster import StatedFeed

LED = ClusterState(controller=ControllerLeader(id=3, epoch=9, rpc_address="[::1]:1"))


@pytest.mark.parametrize(
    ("state", "reason"),
    [(LED, "the request leaves no time to ask controller 3"), (ClusterState(), "no controller leads")],
)
async def test_a_request_that_leaves_no_time_says_whether_there_is_a_controller(
    state: ClusterState, reason: str
) -> None:
    client = ControllerClient(StatedFeed(state))  # type: ignore[arg-type]
    with pytest.raises(RequestTimedOut, match=reason):
        await client.elect_leaders(ElectionType.PREFERRED, None, timeout_s=0)
    await client.close()
