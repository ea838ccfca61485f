"""A controller's settings."""

import pytest

from ottla_controller.config import ControllerConfig, split_address
from ottla_core.config import load_config
from ottla_core.errors import ConfigurationError


def test_defaults_and_overrides() -> None:
    config = load_config(
        ControllerConfig,
        ["--set", "node.id=3", "--set", "rpc.listener=[::1]:0", "--set", "num.partitions=6"],
        environment={"OTTLA_DEFAULT_REPLICATION_FACTOR": "3"},
    )
    assert (config.node_id, config.rpc_listener, config.num_partitions) == (3, "[::1]:0", 6)
    assert config.default_replication_factor == 3


def test_everything_that_is_wrong_is_named_at_once() -> None:
    arguments = ["--set", "rpc.listener=nowhere", "--set", "num.partitions=0", "--set", "no.such=1"]
    with pytest.raises(ConfigurationError) as refused:
        load_config(ControllerConfig, arguments, environment={})
    for named in ("node.id", "rpc.listener", "num.partitions", "no.such"):
        assert named in str(refused.value)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:9090", ("127.0.0.1", 9090)), ("[::1]:1", ("::1", 1)), ("host:0", ("host", 0))],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert split_address(address) == expected


@pytest.mark.parametrize("address", ["", "host", ":1", "host:", "host:x", "host:70000"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_address(address)
