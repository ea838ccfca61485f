"""Workers sign what they ask of each other (KIP-507)."""

import pytest

from ottla_connect.config import SIGNATURE_HASHES
from ottla_connect.herder.signatures import ALGORITHM_HEADER, SIGNATURE_HEADER, InvalidSignature, sign, verify
from ottla_core.rest.errors import BadRequest

KEY = b"key"
BODY = b"[]"
PATH = "/connectors/a/tasks"


def check(headers: dict[str, str], **changes: object) -> None:
    request = {"method": "POST", "path": PATH, "body": BODY} | changes
    key = request.pop("key", KEY)
    verify(
        key, ("HmacSHA256", "HmacSHA512"),
        signature=headers[SIGNATURE_HEADER], algorithm=headers[ALGORITHM_HEADER], **request,
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["HmacSHA256", "HmacSHA512"])
def test_what_was_signed_is_accepted(algorithm):
    check(sign(KEY, algorithm, "POST", PATH, BODY))


@pytest.mark.parametrize(
    "change", [{"body": b"[{}]"}, {"path": "/connectors/b/tasks"}, {"method": "PUT"}, {"key": b"other"}], ids=str
)
def test_what_was_changed_or_signed_with_another_key_is_not(change):
    with pytest.raises(InvalidSignature) as refusal:
        check(sign(KEY, "HmacSHA256", "POST", PATH, BODY), **change)
    assert refusal.value.status == 403


def test_it_does_not_matter_how_a_path_is_escaped():
    check(sign(KEY, "HmacSHA256", "POST", "/connectors/a~b/tasks", BODY), path="/connectors/a%7Eb/tasks")


@pytest.mark.parametrize("algorithm", ["HmacMD5", "Nope"])
def test_algorithms_that_are_not_permitted_are_refused(algorithm):
    headers = {SIGNATURE_HEADER: "aaaa", ALGORITHM_HEADER: algorithm}
    with pytest.raises(BadRequest, match="only with HmacSHA256, HmacSHA512"):
        check(headers)


@pytest.mark.parametrize("signature", ["***", "a", "é"])
def test_a_signature_that_is_no_base64_is_refused(signature):
    with pytest.raises(BadRequest, match="base64"):
        check({SIGNATURE_HEADER: signature, ALGORITHM_HEADER: "HmacSHA256"})


@pytest.mark.parametrize("algorithm", list(SIGNATURE_HASHES))
def test_every_algorithm_that_can_be_configured_can_sign(algorithm):
    assert sign(KEY, algorithm, "POST", PATH, BODY)[ALGORITHM_HEADER] == algorithm
