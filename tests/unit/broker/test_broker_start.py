"""What a broker waits for when it starts."""

from types import SimpleNamespace
from typing import cast

import pytest

from ottla_broker.joining import shows_registration
from ottla_core.cluster.membership.membership import Membership
from ottla_core.cluster.state.model import ClusterState
from tests.support.controller.replica_rules import live


@pytest.mark.parametrize(("registered", "shows"), [((), False), (("1@70",), False), (("1@71", "2@60"), True)])
def test_a_state_from_before_the_registration_is_not_gone_by(registered: tuple[str, ...], shows: bool) -> None:
    """By one that has the predecessor's registration, its logs may become in sync, and not those of this start."""
    membership = cast(Membership, SimpleNamespace(member=SimpleNamespace(id=1), registered_epoch=71))
    assert shows_registration(ClusterState(brokers=live(*registered)), membership) == shows
