"""HTTP connectors reach no internal address where the worker forbids it, whatever it is called."""

import ipaddress
import socket
from collections.abc import Iterator

import pytest

from ottla_http.client import Client
from ottla_http.client_config import HttpClientConfig
from ottla_sdk.network_policy import AddressRefused, forbid_internal_addresses, is_internal, require_permitted
from tests.support.servers.http_service import HttpService


@pytest.fixture
def service() -> Iterator[HttpService]:
    with HttpService() as service:
        yield service


@pytest.fixture
def _forbidden() -> Iterator[None]:
    forbid_internal_addresses(forbidden=True)
    yield
    forbid_internal_addresses(forbidden=False)


def ask(url: str, **settings: str) -> int:
    written = {key.replace("_", "."): value for key, value in settings.items()}
    client = Client(HttpClientConfig.parse({"http.url": url, "http.request.timeout.ms": "2000", **written}))
    try:
        return client.send("GET", url, body=None, headers={}, bytes_max=1000, cut=True).status
    finally:
        client.close()


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
        ),
        *("::1", "::", "fe80::1", "fd00::1", "fec0::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:0:10.0.0.1", "::10.0.0.1", "2002:7f00:1::"),
        *("64:ff9b::7f00:1", "64:ff9b:1::808:808", "64:ff9b:1:808:8:800::"),
        *("2001:0:7f00:1::", "2001:0:808:808::f5ff:fffe", "2606:4700::5efe:a00:1", "2606:4700::200:5efe:a00:1"),
    ],
)
@pytest.mark.usefixtures("_forbidden")
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert is_internal(ipaddress.ip_address(address))
    with pytest.raises(AddressRefused, match=r"connector\.internal\.addresses\.allowed=false"):
        require_permitted("service.example", address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808", "2002:808:808::"])
@pytest.mark.usefixtures("_forbidden")
def test_public_addresses_are_permitted(address: str) -> None:
    require_permitted("service.example", address)


def test_a_worker_permits_all_addresses_unless_it_is_told_otherwise(service: HttpService) -> None:
    assert ask(service.url) == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1"])
@pytest.mark.usefixtures("_forbidden")
def test_no_request_reaches_an_internal_server_by_any_spelling(service: HttpService, host: str) -> None:
    with pytest.raises(AddressRefused):
        ask(service.url.replace("127.0.0.1", host))
    assert not service.requests


@pytest.mark.usefixtures("_forbidden")
def test_neither_token_servers_nor_proxies_are_a_way_round(service: HttpService) -> None:
    login = {"http_auth_oauth2_client_id": "c", "http_auth_oauth2_client_secret": "s"}
    for settings in (
        {"http_auth": "oauth2", "http_auth_oauth2_token_url": service.url, **login},
        {"http_proxy": service.url},
    ):
        with pytest.raises(AddressRefused):
            ask("http://8.8.8.8/", **settings)
    assert not service.requests


@pytest.mark.usefixtures("_forbidden")
def test_a_name_that_changes_its_meaning_is_judged_by_the_address_that_is_connected_to(
    service: HttpService, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, port = socket.getaddrinfo, int(service.url.rstrip("/").rpartition(":")[2])
    asked: list[str] = []

    def resolve(host: str, *others: object, **more: object) -> object:
        """Answer with a public address first and an internal one ever after, as rebinding does."""
        if host != "rebinding.example":
            return real(host, *others, **more)  # type: ignore[arg-type]
        asked.append(host)
        return real("127.0.0.1" if len(asked) > 1 else "192.88.99.255", port, type=socket.SOCK_STREAM)

    connected: list[str] = []

    def connect(address: tuple[str, int], *others: object, **more: object) -> socket.socket:
        connected.append(address[0])
        raise ConnectionRefusedError("nothing is sent out of this test")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(Exception, match="nothing is sent"):
        ask(f"http://rebinding.example:{port}/")
    assert connected == ["192.88.99.255"]
    with pytest.raises(AddressRefused):
        ask(f"http://rebinding.example:{port}/")
    assert connected == ["192.88.99.255"]
