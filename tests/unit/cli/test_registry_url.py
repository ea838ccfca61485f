"""What people type for a schema registry is what its client can ask, or is refused without showing a password."""

from base64 import b64encode

import pytest

from ottla.commands.record_formats import Formats
from ottla.profiles import profile_choice
from ottla.profiles.profile import Profile
from ottla.registry_url import registry_url
from ottla_operations.errors import OperationError, UsageProblem
from tests.support.servers.schema_registry_server import running_schema_registry


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("schemas", "http://schemas"),
        (" schemas:8081 ", "http://schemas:8081"),
        ("schemas:8081/apis/ccompat/v7", "http://schemas:8081/apis/ccompat/v7"),
        ("[::1]:8081", "http://[::1]:8081"),
        ("me:secret@schemas:8081", "http://me:secret@schemas:8081"),
        ("http://schemas:8081", "http://schemas:8081"),
        ("https://schemas", "https://schemas"),
        ("a:1,https://b,c", "http://a:1,https://b,http://c"),
        ("https://a, https://b", "https://a, https://b"),
    ],
)
def test_http_is_meant_where_no_scheme_stands(typed: str, url: str) -> None:
    assert registry_url(typed) == url
    assert registry_url(url) == url


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        ("", "address 1 of 1 is empty or has no host"),
        ("a:1,,b:1", "address 2 of 3 is empty or has no host"),
        ("a:1,", "address 2 of 2 is empty or has no host"),
        ("https://", "has no host"),
        (":8081", "has no host"),
        ("//schemas:8081", "has no host"),
        ("registry:80x1", "has a port that is no number"),
        ("registry:99999", "has a port that is no number up to 65535"),
        ("::1", "an IPv6 address without its brackets"),
        ("[::1", "an IPv6 address without its brackets"),
    ],
)
def test_what_is_no_address_is_refused_with_its_place(typed: str, reason: str) -> None:
    with pytest.raises(UsageProblem, match=reason):
        registry_url(typed)


@pytest.mark.parametrize("typed", ["me:sec/ret@schemas", "me:sec,ret@schemas"])
def test_a_password_with_characters_of_urls_is_refused_and_not_shown(typed: str) -> None:
    with pytest.raises(UsageProblem, match="has a port that is no number") as refused:
        registry_url(typed)
    assert "sec" not in str(refused.value)


def test_credentials_of_a_profile_go_to_its_registry_however_it_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_schema_registry() as server:
        server.authorization = f"Basic {b64encode(b'me:secret').decode()}"
        profile = Profile(schema_registry=server.url, registry={"basic.auth.user.info": "me:secret"})
        monkeypatch.setattr(profile_choice, "_chosen", ("lab", profile))
        address = server.url.removeprefix("http://")
        assert Formats(None, None, address, None).for_publishing("key", "t")
        monkeypatch.setattr(profile_choice, "_chosen", None)
        with pytest.raises(OperationError, match=r"refuses: .*401"):
            Formats(None, None, address, None).for_publishing("key", "t")
