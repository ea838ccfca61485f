"""Settings come from a file, the environment and the command line, and are refused all at once when wrong."""

from pathlib import Path

import pytest
from pydantic import ConfigDict, Field

from ottla_broker.config import BrokerConfig
from ottla_controller.config import ControllerConfig
from ottla_core.config import ServiceConfig, load_config, parse_address
from ottla_core.errors import ConfigurationError
from ottla_core.topic_config import topic_defaults


def load(*assignments: str, environment: dict[str, str] | None = None, file: Path | None = None) -> BrokerConfig:
    arguments = [word for assignment in assignments for word in ("--set", assignment)]
    if file is not None:
        arguments += ["--config", str(file)]
    return load_config(BrokerConfig, arguments, environment or {})


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("# a comment\nnode.id=1\nlog.dirs=/a, /b\nnum.partitions=2\nfetch.max.bytes=2048\n")

    config = load(
        "num.partitions=4",
        environment={"OTTLA_NUM_PARTITIONS": "3", "OTTLA_FETCH_MAX_BYTES": "4096", "HOME": "/root"},
        file=file,
    )

    assert (config.node_id, config.num_partitions, config.fetch_max_bytes) == (1, 4, 4096)
    assert config.log_dirs == (Path("/a"), Path("/b"))


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        load("log.dirs=/a", "nonsense=1", "num.partitions=none", "log.retention.ms=soon", "listeners=SSL://a")

    message = str(raised.value)
    for part in ("node.id: must be set", "nonsense: unknown setting", "num.partitions", "log.retention.ms", "SSL"):
        assert part in message


def test_a_setting_is_known_by_its_key_alone() -> None:
    for name in ("topic_settings=1", "node_id=1", "num_partitions=2"):
        with pytest.raises(ConfigurationError, match="unknown setting"):
            load("node.id=1", "log.dirs=/a", name)


class OpenConfig(ServiceConfig):
    """Settings with a prefix that is left open."""

    model_config = ConfigDict(extra="allow")
    open_prefixes = ("client.",)
    name: str = Field("", alias="name")


def test_keys_below_an_open_prefix_are_kept_as_they_are_wherever_they_come_from() -> None:
    config = load_config(
        OpenConfig, ["--set", "client.acks=all"], {"OTTLA_CLIENT_LINGER_MS": "5", "OTTLA_OTHER": "1"}
    )
    assert config.model_extra == {"client.acks": "all", "client.linger.ms": "5"}
    with pytest.raises(ConfigurationError, match=r"clients\.x: unknown setting"):
        load_config(OpenConfig, ["--set", "clients.x=1"], {})


@pytest.mark.parametrize("model", [BrokerConfig, ControllerConfig])
def test_help_names_and_describes_every_setting(
    model: type[ServiceConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        load_config(model, ["--help"], {})

    shown = capsys.readouterr().out
    assert "Undefined" not in shown
    assert all(f"  {key} (" in shown for key in model.fields_by_key())
    assert all(described.description.endswith(".") for described in model.described_keys())


def test_a_line_that_is_no_assignment_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("node.id=1\nwhat is this\n")

    with pytest.raises(ConfigurationError, match=r"broker.properties:2: not a key=value line"):
        load(file=file)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read the configuration file"):
        load(file=tmp_path / "absent.properties")


def test_settings_that_give_topics_their_defaults_keep_their_historic_units() -> None:
    config = load("node.id=1", "log.dirs=/a", "log.retention.hours=5", "log.roll.ms=1000", "log.roll.hours=9")

    defaults = topic_defaults(config.topic_settings)

    assert defaults.retention_ms == 5 * 3_600_000
    assert defaults.segment_ms == 1000, "the more specific setting wins"


def test_an_advertised_listener_must_be_a_listener() -> None:
    config = load(
        "node.id=1",
        "log.dirs=/a",
        "listeners=PLAINTEXT://0.0.0.0:9092",
        "advertised.listeners=PLAINTEXT://broker:19092",
    )

    assert config.advertised_listeners == (("PLAINTEXT", "broker", 19092),)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:9090", ("127.0.0.1", 9090)), ("[::1]:1", ("::1", 1)), ("host:0", ("host", 0))],
)
def test_addresses(address: str, expected: tuple[str, int]) -> None:
    assert parse_address(address) == expected
    assert str(parse_address(address)) == address


@pytest.mark.parametrize("address", ["", "host", ":1", "host:", "host:x", "host:70000"])
def test_bad_addresses(address: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(address)
