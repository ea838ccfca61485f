"""A controller's settings."""

import pytest

from ottla_controller.config import ControllerConfig
from ottla_core.config import load_config
from ottla_core.errors import ConfigurationError


def test_defaults_and_overrides() -> None:
    config = load_config(
        ControllerConfig,
        ["--set", "node.id=3", "--set", "rpc.listener=[::1]:0", "--set", "num.partitions=6"],
        environment={"OTTLA_DEFAULT_REPLICATION_FACTOR": "3"},
    )
    assert (config.node_id, config.rpc_listener, config.num_partitions) == (3, ("::1", 0), 6)
    assert config.default_replication_factor == 3


def test_everything_that_is_wrong_is_named_at_once() -> None:
    arguments = ["--set", "rpc.listener=nowhere", "--set", "num.partitions=0", "--set", "no.such=1"]
    with pytest.raises(ConfigurationError) as refused:
        load_config(ControllerConfig, arguments, environment={})
    for named in ("node.id", "rpc.listener", "num.partitions", "no.such"):
        assert named in str(refused.value)
