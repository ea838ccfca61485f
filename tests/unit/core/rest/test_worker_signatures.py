"""What one worker signs and another one believes."""

import pytest

from ottla_core.rest.worker_signatures import (
    AGE_MS_MAX,
    FORMER_KEY_MS,
    OWN_ACCOUNT,
    SeenNonces,
    SharedKey,
    SignedRequest,
    sign_caller,
    signed_request,
)
from ottla_mirror.workers.worker_keys import OwnKey

NOW_MS = 1_700_000_000_000
REQUEST = {"method": "PUT", "target": b"/connectors/a/config?forward=true", "audience": "https://w2:8083"}
SHARED = SharedKey(lambda: b"key")
SIGNERS = pytest.mark.parametrize("signer", [SHARED, OwnKey()], ids=["shared key", "own key"])


def known(signer, headers, *, seen=None, now_ms=NOW_MS, **changed):
    return signed_request(signer, seen or SeenNonces(), headers, **{**REQUEST, **changed}, now_ms=now_ms)


def headers_of(signer, caller="ann", nonce="7" * 32, now_ms=NOW_MS):
    return sign_caller(signer, caller, **REQUEST, body=b"{}", nonce=nonce, now_ms=now_ms)


@SIGNERS
def test_who_asks_is_believed_for_the_request_that_was_signed_and_no_other(signer):
    headers = headers_of(signer, "Ann Öst")
    found = known(signer, headers)
    assert isinstance(found, SignedRequest)
    assert found.caller == "Ann Öst"
    assert known(signer, headers, method="DELETE") is None
    assert known(signer, headers, target=b"/connectors/b/config?forward=true") is None
    assert known(signer, headers, target=b"/connectors/a/config?forward=false") is None
    assert known(signer, headers, audience="https://w3:8083") is None
    assert known(signer, headers, now_ms=NOW_MS + AGE_MS_MAX + 1) is None
    assert known(signer, headers, now_ms=NOW_MS - AGE_MS_MAX - 1) is None
    for name in headers:
        assert known(signer, {**headers, name: headers[name][:-1] + "7e"}) is None
        assert known(signer, {each: headers[each] for each in headers if each != name}) is None


@SIGNERS
def test_a_request_that_comes_again_is_not_believed(signer):
    seen = SeenNonces()
    assert known(signer, headers_of(signer), seen=seen) is not None
    assert known(signer, headers_of(signer), seen=seen) is None
    assert known(signer, headers_of(signer, nonce="8" * 32), seen=seen) is not None


@SIGNERS
def test_a_request_that_was_recorded_before_a_restart_is_not_believed_after_it(signer):
    headers = headers_of(signer)
    assert known(signer, headers, seen=SeenNonces()) is not None
    restarted = SeenNonces(since_ms=NOW_MS + 1000)
    assert known(signer, headers, seen=restarted, now_ms=NOW_MS + 2000) is None
    fresh = headers_of(signer, nonce="8" * 32, now_ms=NOW_MS + 1500)
    assert known(signer, fresh, seen=restarted, now_ms=NOW_MS + 2000) is not None


def test_what_was_forgotten_for_want_of_room_is_not_believed_either():
    seen = SeenNonces(count_max=2)
    for number in range(3):
        assert seen.take(str(number), NOW_MS + number, NOW_MS + number)
    assert not seen.take("0", NOW_MS, NOW_MS + 3)
    assert not seen.take("2", NOW_MS + 2, NOW_MS + 3)
    assert seen.take("3", NOW_MS + 3, NOW_MS + 3)


def test_nonces_that_are_too_old_to_be_believed_make_room():
    seen = SeenNonces(count_max=2)
    assert seen.take("a", NOW_MS, NOW_MS)
    assert seen.take("b", NOW_MS, NOW_MS)
    later_ms = NOW_MS + AGE_MS_MAX + 1
    assert seen.take("c", NOW_MS + 1, later_ms), "what has expired is no reason to refuse others"
    assert seen.take("d", later_ms, later_ms)


def test_a_request_for_nobody_is_a_workers_own():
    found = known(SHARED, headers_of(SHARED, OWN_ACCOUNT))
    assert found is not None
    assert found.caller == OWN_ACCOUNT


def test_another_key_is_not_believed_and_none_signs_nothing():
    assert known(SharedKey(lambda: b"another"), headers_of(SHARED)) is None
    assert known(SharedKey(lambda: None), headers_of(SHARED)) is None
    assert headers_of(SharedKey(lambda: None)) == {}


def test_a_key_that_was_replaced_counts_for_a_while():
    keys = [b"key"]
    signer = SharedKey(lambda: keys[0])
    assert known(signer, headers_of(SHARED)) is not None
    keys[0] = b"fresh"
    assert known(signer, headers_of(SHARED, nonce="8")) is not None
    assert known(signer, headers_of(SharedKey(lambda: b"fresh"), nonce="9")) is not None
    assert known(signer, headers_of(SHARED, nonce="10"), now_ms=NOW_MS + FORMER_KEY_MS) is None


def test_a_worker_knows_the_signatures_of_those_whom_the_leader_has_named():
    own, other = OwnKey(), OwnKey()
    assert known(own, headers_of(other)) is None
    own.others = lambda: ["no key", other.public]
    assert known(own, headers_of(other)) is not None
    assert known(own, {**headers_of(other), "x-ottla-caller-signature": f"no key.{'A' * 88}"}) is None
