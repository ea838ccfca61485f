"""References in a link's settings: where their values come from, and what is said when there is none."""

from pathlib import Path

import pytest

from ottla_broker.links.link_settings import is_reference, resolved
from ottla_core.errors import ConfigurationError


def test_references_are_replaced_and_all_else_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    (tmp_path / "keys").write_text("# secrets\nuser = alice\npassword=a=b\n")
    (tmp_path / "whole").write_text("line\n")
    settings = {
        "a": "plain",
        "b": "${env:SECRET}",
        "c": f"${{file:{tmp_path}/keys:user}}:${{file:{tmp_path}/keys:password}}",
        "d": f"${{file:{tmp_path}/whole}}",
    }
    assert resolved(settings) == {"a": "plain", "b": "s3cret", "c": "alice:a=b", "d": "line"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${env:NO_SUCH_VARIABLE}", "sasl.password: .*no such environment variable"),
        ("${vault:a:b}", "no config provider 'vault'"),
        ("${file:/does/not/exist:k}", "No such file"),
        ("${file:/dev/null:k}", "no such key"),
    ],
)
def test_a_reference_without_a_value_is_named(value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolved({"sasl.password": value})


def test_only_a_whole_reference_hides_nothing() -> None:
    assert is_reference("${env:A}")
    assert not is_reference("x${env:A}")
    assert not is_reference("secret")
