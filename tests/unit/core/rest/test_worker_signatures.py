"""What one worker signs and another one believes."""

import pytest

from ottla_core.rest.worker_signatures import AGE_MS_MAX, SharedKey, SignedRequest, sign_caller, signed_request
from ottla_mirror.workers.worker_keys import OwnKey

NOW_MS = 1_700_000_000_000
REQUEST = {"method": "PUT", "target": b"/connectors/a/config?forward=true"}
SHARED = SharedKey(lambda: b"key")


def known(signer, headers, *, now_ms=NOW_MS, **changed):
    return signed_request(signer, headers, **{**REQUEST, **changed}, now_ms=now_ms)


def headers_of(signer, caller="ann"):
    return sign_caller(signer, caller, **REQUEST, body=b"{}", now_ms=NOW_MS)


@pytest.mark.parametrize("signer", [SHARED, OwnKey()], ids=["shared key", "own key"])
def test_who_asks_is_believed_for_the_request_that_was_signed_and_no_other(signer):
    headers = headers_of(signer, "Ann Öst")
    found = known(signer, headers)
    assert isinstance(found, SignedRequest)
    assert found.caller == "Ann Öst"
    assert known(signer, headers, method="DELETE") is None
    assert known(signer, headers, target=b"/connectors/b/config?forward=true") is None
    assert known(signer, headers, now_ms=NOW_MS + AGE_MS_MAX + 1) is None
    for name in headers:
        assert known(signer, {**headers, name: headers[name][:-1] + "7e"}) is None
        assert known(signer, {each: headers[each] for each in headers if each != name}) is None


def test_another_key_is_not_believed_and_none_signs_nothing():
    assert known(SharedKey(lambda: b"another"), headers_of(SHARED)) is None
    assert known(SharedKey(lambda: None), headers_of(SHARED)) is None
    assert headers_of(SharedKey(lambda: None)) == {}


def test_a_worker_knows_the_signatures_of_those_whom_the_leader_has_named():
    own, other = OwnKey(), OwnKey()
    assert known(own, headers_of(other)) is None
    own.others = lambda: ["no key", other.public]
    assert known(own, headers_of(other)) is not None
