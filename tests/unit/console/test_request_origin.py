"""Whose requests the console answers."""

import pytest

from ottla_console.access.request_origin import allowed_hosts, problem_of_host, problem_of_origin
from ottla_core.rest.settings import Listener

LOCAL = Listener("http", "127.0.0.1", 8086)
EVERYWHERE = Listener("http", "", 8086)


@pytest.mark.parametrize("host", ["localhost:8086", "127.0.0.1:8086", "[::1]:8086", "localhost"])
def test_a_console_on_this_machine_answers_to_its_names(host: str) -> None:
    assert problem_of_host(host, allowed_hosts([LOCAL], None)) is None


@pytest.mark.parametrize("host", ["evil.example:8086", "", "127.0.0.1.evil.example", "[", "localhost@evil.example"])
def test_a_name_of_somebody_else_that_leads_to_this_machine_is_refused(host: str) -> None:
    assert problem_of_host(host, allowed_hosts([LOCAL], None)) is not None


def test_beyond_this_machine_any_name_will_do_unless_the_public_url_says_which() -> None:
    assert problem_of_host("console.example", allowed_hosts([EVERYWHERE], None)) is None
    known = allowed_hosts([EVERYWHERE], "https://console.example")
    assert problem_of_host("console.example", known) is None
    assert problem_of_host("other.example", known) is not None


@pytest.mark.parametrize(
    ("headers", "is_accepted"),
    [
        ({"origin": "http://127.0.0.1:8086"}, True),
        ({"origin": "http://127.0.0.1:8086", "sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://127.0.0.1:8086", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://127.0.0.1:8086", "sec-fetch-site": "same-site"}, False),
        ({}, False),
    ],
)
def test_a_change_is_accepted_from_a_page_of_the_console_alone(headers: dict[str, str], is_accepted: bool) -> None:
    problem = problem_of_origin("POST", {"host": "127.0.0.1:8086", **headers}, None)
    assert (problem is None) is is_accepted


def test_behind_a_proxy_the_public_url_is_the_origin_too() -> None:
    headers = {"host": "10.0.0.5:8086", "origin": "https://console.example"}
    assert problem_of_origin("POST", headers, "https://console.example") is None
    assert problem_of_origin("POST", headers, None) is not None


def test_looking_needs_no_origin() -> None:
    assert problem_of_origin("GET", {}, None) is None
