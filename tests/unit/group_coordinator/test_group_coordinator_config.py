"""A group coordinator's settings: Kafka's keys and defaults, refused together."""

from dataclasses import fields

import pytest

from ottla_core.config import load_config
from ottla_core.errors import ConfigurationError
from ottla_group_coordinator.config import GroupCoordinatorConfig
from ottla_group_coordinator.settings import GroupSettings
from ottla_group_coordinator.transactions.settings import TransactionSettings

NOT_CONFIGURABLE = {"new_member_join_timeout_ms", "batch_bytes_max"}
CHANGED = {
    "group.min.session.timeout.ms": ("7000", "min_session_timeout_ms", 7000),
    "group.max.session.timeout.ms": ("90000", "max_session_timeout_ms", 90_000),
    "group.initial.rebalance.delay.ms": ("0", "initial_rebalance_delay_ms", 0),
    "group.max.size": ("10", "group_max_size", 10),
    "group.consumer.session.timeout.ms": ("50000", "consumer_session_timeout_ms", 50_000),
    "group.consumer.min.session.timeout.ms": ("1000", "consumer_min_session_timeout_ms", 1000),
    "group.consumer.max.session.timeout.ms": ("70000", "consumer_max_session_timeout_ms", 70_000),
    "group.consumer.heartbeat.interval.ms": ("4000", "consumer_heartbeat_interval_ms", 4000),
    "group.consumer.min.heartbeat.interval.ms": ("100", "consumer_min_heartbeat_interval_ms", 100),
    "group.consumer.max.heartbeat.interval.ms": ("20000", "consumer_max_heartbeat_interval_ms", 20_000),
    "group.consumer.max.size": ("11", "consumer_group_max_size", 11),
    "group.consumer.assignors": ("range, uniform", "consumer_assignors", ("range", "uniform")),
    "group.consumer.migration.policy": ("DISABLED", "consumer_migration_policy", "disabled"),
    "group.consumer.regex.refresh.interval.ms": ("20000", "consumer_regex_refresh_ms", 20_000),
    "offset.metadata.max.bytes": ("100", "offset_metadata_max_bytes", 100),
    "offsets.retention.minutes": ("2", "offsets_retention_ms", 120_000),
    "offsets.retention.check.interval.ms": ("1000", "offsets_retention_check_ms", 1000),
}


def load(*assignments: str) -> GroupCoordinatorConfig:
    arguments = [word for assignment in ("node.id=3", *assignments) for word in ("--set", assignment)]
    return load_config(GroupCoordinatorConfig, arguments, environment={})


def test_the_defaults_are_those_of_the_rules() -> None:
    config = load()
    assert config.group_settings() == GroupSettings()
    assert (config.offsets_commit_timeout_ms, config.offsets_load_buffer_size) == (5000, 5 * 1024 * 1024)


def test_every_rule_that_kafka_lets_be_set_can_be_set() -> None:
    settings = load(*(f"{key}={text}" for key, (text, _, _) in CHANGED.items())).group_settings()

    known = {f.name for f in fields(GroupSettings)} - NOT_CONFIGURABLE
    assert {name for _, name, _ in CHANGED.values()} == known
    for key, (_, name, value) in CHANGED.items():
        assert getattr(settings, name) == value, key


def test_single_groups_need_limits_that_leave_room() -> None:
    for kind in ("session.timeout.ms", "heartbeat.interval.ms"):
        with pytest.raises(ConfigurationError, match=f"group.consumer.min.{kind} must not be above"):
            load(f"group.consumer.min.{kind}=70000")


def test_values_are_checked_against_each_other_and_refused_together() -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(
            "group.min.session.timeout.ms=20",
            "group.max.session.timeout.ms=10",
            "group.consumer.heartbeat.interval.ms=45000",
            "group.consumer.assignors=range,sticky",
        )
    for named in ("group.min.session.timeout.ms", "group.consumer.heartbeat.interval.ms", "sticky"):
        assert named in str(refused.value)


@pytest.mark.parametrize(
    "assignment",
    [
        "group.max.size=0",
        "group.consumer.assignors=",
        "group.consumer.migration.policy=sometimes",
        "offsets.commit.timeout.ms=0",
        "offsets.retention.minutes=0",
    ],
)
def test_values_that_cannot_be_are_refused(assignment: str) -> None:
    with pytest.raises(ConfigurationError, match=assignment.partition("=")[0]):
        load(assignment)


def test_help_names_and_describes_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        load_config(GroupCoordinatorConfig, ["--help"], {})
    shown = capsys.readouterr().out
    assert all(f"  {key} (" in shown for key in GroupCoordinatorConfig.fields_by_key())
    assert all(described.description.endswith(".") for described in GroupCoordinatorConfig.described_keys())


def test_settings_of_transactions_reach_their_rules() -> None:
    config = GroupCoordinatorConfig.model_validate(
        {
            "node.id": 1,
            "transaction.max.timeout.ms": 1,
            "transactional.id.expiration.ms": 2,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 3,
            "transaction.remove.expired.transaction.cleanup.interval.ms": 4,
            "transaction.two.phase.commit.enable": True,
        }
    )
    assert config.transaction_settings() == TransactionSettings(
        max_timeout_ms=1, expiration_ms=2, abort_check_ms=3, expiration_check_ms=4, two_phase_commit=True
    )
    assert GroupCoordinatorConfig.model_validate({"node.id": 1}).transaction_settings() == TransactionSettings()
