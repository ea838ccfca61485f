"""Settings come from variables of the environment, and from files that variables name."""

from pathlib import Path

import pytest
from pydantic import ConfigDict, Field

from ottla_core.config import EtcdSettings, ServiceConfig, load_config
from ottla_core.environment_settings import FILE_BYTES_MAX
from ottla_core.errors import ConfigurationError

SECRET = "correct horse battery staple"


class OpenConfig(ServiceConfig):
    """Settings with a prefix that is left open."""

    model_config = ConfigDict(extra="allow")
    open_prefixes = ("producer.",)
    open_file_keys = (".assertion.file",)
    node_id: int = Field(0, alias="node.id")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "secret"
    written.write_text(f"{SECRET}\n")
    return written


def test_a_file_has_the_value_of_a_setting_without_the_line_break_at_its_end(file: Path) -> None:
    assert load_config(EtcdSettings, [], {"OTTLA_ETCD_PASSWORD_FILE": str(file)}).etcd_password == SECRET
    file.write_bytes(b" two\r\nlines \r\n")
    assert load_config(EtcdSettings, [], {"OTTLA_ETCD_PASSWORD_FILE": str(file)}).etcd_password == " two\r\nlines "


def test_the_command_line_wins_over_a_file(file: Path) -> None:
    config = load_config(EtcdSettings, ["--set", "etcd.password=other"], {"OTTLA_ETCD_PASSWORD_FILE": str(file)})

    assert config.etcd_password == "other"


def test_settings_below_an_open_prefix_may_stand_in_files(file: Path) -> None:
    environment = {
        "OTTLA_PRODUCER_SASL_PASSWORD_FILE": str(file),
        "OTTLA_PRODUCER_SASL_ASSERTION_FILE": "/a/file",
        "OTTLA_PRODUCER_ACKS": "all",
    }

    assert load_config(OpenConfig, [], environment).model_extra == {
        "producer.sasl.password": SECRET,
        "producer.sasl.assertion.file": "/a/file",
        "producer.acks": "all",
    }


def test_all_files_that_cannot_be_read_are_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    environment = {
        "OTTLA_ETCD_PASSWORD_FILE": str(tmp_path / "missing"),
        "OTTLA_ETCD_USERNAME_FILE": str(tmp_path / "large"),
        "OTTLA_CLUSTER_NAME_FILE": str(tmp_path / "binary"),
        "OTTLA_ETCD_ENDPOINTS_FILE": str(tmp_path),
    }

    with pytest.raises(ConfigurationError) as raised:
        load_config(EtcdSettings, [], environment)

    message = str(raised.value)
    for part in (
        f"etcd.password: cannot read the file {tmp_path}/missing: No such file or directory "
        "[environment variable OTTLA_ETCD_PASSWORD_FILE]",
        "etcd.username: cannot read the file",
        f"it has more than {FILE_BYTES_MAX} bytes",
        "cluster.name: cannot read the file",
        "it is no text in UTF-8",
        "etcd.endpoints: cannot read the file",
        "Is a directory",
    ):
        assert part in message


@pytest.mark.parametrize("is_file_first", [True, False])
def test_a_setting_in_a_variable_and_in_a_file_is_refused(file: Path, is_file_first: bool) -> None:
    pairs = [("OTTLA_ETCD_PASSWORD_FILE", str(file)), ("OTTLA_ETCD_PASSWORD", "other")]

    with pytest.raises(ConfigurationError, match=r"set OTTLA_ETCD_PASSWORD or OTTLA_ETCD_PASSWORD_FILE, not both"):
        load_config(EtcdSettings, [], dict(pairs if is_file_first else reversed(pairs)))


def test_no_message_has_what_a_file_has(file: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_config(OpenConfig, [], {"OTTLA_NODE_ID_FILE": str(file)})

    assert f"node.id: write a whole number [file {file}, environment variable OTTLA_NODE_ID_FILE]" in str(
        raised.value
    )
    assert SECRET not in str(raised.value)
