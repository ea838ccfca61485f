"""Config providers: environment variables, properties files, directories."""

import pytest

from ottla_sdk import FatalError, InvalidConfig
from ottla_sdk.runtime.java_properties import parse_properties
from ottla_standard import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider


def provider(kind, **config):
    made = kind()
    made.configure({key.replace("_", "."): str(value) for key, value in config.items()})
    return made


def test_environment_variables_are_read_if_they_are_allowed(monkeypatch):
    monkeypatch.setenv("OTTLA_TEST_SECRET", "s3cret")
    monkeypatch.setenv("OTHER", "x")
    env = provider(EnvVarConfigProvider, allowlist_pattern="OTTLA_.*")
    assert env.get("", "OTTLA_TEST_SECRET") == "s3cret"
    assert provider(EnvVarConfigProvider).get("", "OTHER") == "x"
    for path, key in (("", "OTHER"), ("", "OTTLA_TEST_NONE"), ("path", "OTTLA_TEST_SECRET")):
        with pytest.raises(FatalError):
            env.get(path, key)
    with pytest.raises(InvalidConfig, match=r"allowlist\.pattern"):
        provider(EnvVarConfigProvider, allowlist_pattern="(")


def test_properties_files_are_read(tmp_path):
    file = tmp_path / "secrets.properties"
    file.write_text("# comment\nuser = admin\npassword=ge=heim\\u00e9\n")
    made = provider(FileConfigProvider)
    assert made.get(str(file), "user") == "admin"
    assert made.get(str(file), "password") == "ge=heimé"
    with pytest.raises(FatalError, match="nothing") as caught:
        made.get(str(file), "nothing")
    assert "admin" not in str(caught.value)
    for path in ("", str(tmp_path / "none"), str(tmp_path)):
        with pytest.raises(FatalError):
            made.get(path, "user")


def test_files_of_a_directory_are_values(tmp_path):
    (tmp_path / "password").write_text("geheim\n")
    made = provider(DirectoryConfigProvider)
    assert made.get(str(tmp_path), "password") == "geheim\n"
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    for key in ("none", "../password", "..", "", "binary", "large"):
        with pytest.raises(FatalError):
            made.get(str(tmp_path), key)


@pytest.mark.parametrize("kind", [FileConfigProvider, DirectoryConfigProvider])
def test_only_what_is_allowed_is_read(kind, tmp_path):
    allowed = tmp_path / "allowed"
    secret = tmp_path / "secret"
    for folder in (allowed, secret, allowed / "below"):
        folder.mkdir()
        (folder / "f").write_text("f=1")
    (allowed / "link").symlink_to(secret)
    made = provider(kind, allowed_paths=allowed)

    def read(folder):
        return made.get(str(folder / "f") if kind is FileConfigProvider else str(folder), "f")

    assert read(allowed)
    assert read(allowed / "below")
    for folder in (secret, allowed / ".." / "secret", allowed / "link"):
        with pytest.raises(FatalError, match=r"allowed\.paths"):
            read(folder)


def test_the_links_of_a_kubernetes_secret_stay_inside(tmp_path):
    (tmp_path / "..2024").mkdir()
    (tmp_path / "..2024" / "password").write_text("x")
    (tmp_path / "..data").symlink_to("..2024")
    (tmp_path / "password").symlink_to("..data/password")
    made = provider(DirectoryConfigProvider, allowed_paths=tmp_path)
    assert made.get(str(tmp_path), "password") == "x"


def test_allowed_paths_are_absolute_and_exist(tmp_path):
    with pytest.raises(InvalidConfig) as caught:
        provider(FileConfigProvider, allowed_paths=f"relative,{tmp_path}/none")
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1\nb:2\nc 3\nd\t=\t4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("a = x y \n", {"a": "x y "}),
        ("a==b\n", {"a": "=b"}),
        ("a\n=v\n", {"a": "", "": "v"}),
        ("! c\n  # d\n\n   a=1", {"a": "1"}),
        ("a=one\\\n   two\\\r\nthree\nb=1", {"a": "onetwothree", "b": "1"}),
        ("a=one\\\\\nb=1", {"a": "one\\", "b": "1"}),
        ("a=\\t\\n\\u0041\\q\\\n", {"a": "\t\nAq"}),
        ("a\\ b\\==\\:x", {"a b=": ":x"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\\\n# no comment\n", {"a": "# no comment"}),
        ("a=1\rb=2", {"a": "1", "b": "2"}),
        ("a=\\u12", {"a": "u12"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text, found):
    assert parse_properties(text) == found
