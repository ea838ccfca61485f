"""Levels of a broker's loggers."""

import re
from pathlib import Path

import pytest

from ottla_broker.loggers import LOGGERS, change_levels, check_broker_id, check_level_changes, describe_loggers
from ottla_core.cluster.controller_rpc.controller_api import ConfigChange, ConfigOperation
from ottla_core.errors import InvalidConfig, InvalidRequest, KafkaError
from ottla_core.observe.log_levels import ROOT, LogLevels

REPOSITORY = Path(__file__).resolve().parents[3]
SET, DELETE, APPEND, _ = ConfigOperation


def test_the_loggers_are_those_that_the_sources_name() -> None:
    sources = [path for part in ("services/broker/src", "core/src") for path in (REPOSITORY / part).rglob("*.py")]
    sources = [path for path in sources if not {"rest", "group"} & {*path.parts}]  # of Connect's and mirrors' workers
    named = {name for path in sources for name in re.findall(r'get_logger\("([^"]+)"\)', path.read_text())}
    assert named == LOGGERS


def test_a_logger_goes_by_its_own_level_else_by_its_parents_else_by_the_roots() -> None:
    levels = LogLevels()
    levels.begin("WARN")
    change_levels([ConfigChange(name="log", value="DEBUG", operation=SET)], levels)
    described = {each.name: each.value for each in describe_loggers(levels)}
    assert (described["log"], described["log.compaction"], described["etcd"]) == ("DEBUG", "DEBUG", "WARN")
    change_levels([ConfigChange(name=ROOT, value="ERROR", operation=SET)], levels)
    assert (levels.level_of("etcd"), levels.level_of("log.store")) == ("ERROR", "DEBUG")
    change_levels([ConfigChange(name="log", value=None, operation=DELETE)], levels)
    assert levels.level_of("log.store") == "ERROR"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (ConfigChange(name="nobody", value="INFO", operation=SET), InvalidConfig, "does not exist"),
        (ConfigChange(name="nobody", value=None, operation=DELETE), InvalidConfig, "does not exist"),
        (ConfigChange(name="log", value="LOUD", operation=SET), InvalidConfig, "not a supported log level"),
        (ConfigChange(name="log", value=None, operation=SET), InvalidConfig, "not a supported log level"),
        (ConfigChange(name=ROOT, value=None, operation=DELETE), InvalidRequest, "is not allowed"),
        (ConfigChange(name="log", value="INFO", operation=APPEND), InvalidRequest, "APPEND"),
    ],
)
def test_what_cannot_be_is_refused(change: ConfigChange, error: type[KafkaError], message: str) -> None:
    with pytest.raises(error, match=message):
        check_level_changes([change])


@pytest.mark.parametrize("name", ["", "2", "01"])
def test_only_the_broker_that_is_asked_changes_its_levels(name: str) -> None:
    check_broker_id("1", 1)
    with pytest.raises(InvalidRequest, match="expected 1"):
        check_broker_id(name, 1)
