"""What a file says that is shown to workers."""

import ssl
from base64 import b64decode

import pytest

from ottla_sdk.kafka.known_settings import VARIABLE, known_settings, written_settings
from ottla_sdk.local_references import BadReference
from ottla_sdk.worker_access import FILE_VARIABLE, URLS_VARIABLE, BadAccess, WorkerAccess, tls_problem, worker_access

SECRET = "a-marker-that-no-message-has"


def access(tmp_path, text, url="https://w:1", **environment):
    file = tmp_path / "rest.properties"
    file.write_text(text)
    return worker_access(url, {FILE_VARIABLE: str(file), **environment})


def test_without_a_file_nothing_is_shown():
    assert worker_access("https://w:1", {}) == WorkerAccess()
    assert WorkerAccess().headers == {}


def test_passwords_and_tokens_become_a_header_and_stay_out_of_what_is_shown(tmp_path):
    shown = access(tmp_path, f"basic.auth.user.info=ann:{SECRET}:x\n")
    scheme, _, encoded = shown.headers["Authorization"].partition(" ")
    assert (scheme, b64decode(encoded).decode()) == ("Basic", f"ann:{SECRET}:x")
    assert SECRET not in repr(shown)
    assert encoded not in repr(shown)
    assert access(tmp_path, f"bearer.auth.token={SECRET}").headers == {"Authorization": f"Bearer {SECRET}"}


def test_references_stand_for_variables_and_files(tmp_path):
    held = tmp_path / "held"
    held.write_text(f"{SECRET}\n")
    assert access(tmp_path, f"bearer.auth.token=${{file:{held}}}").headers["Authorization"] == f"Bearer {SECRET}"
    found = access(tmp_path, "bearer.auth.token=${env:TOKEN}", TOKEN=SECRET)
    assert found.headers["Authorization"] == f"Bearer {SECRET}"


def test_a_file_for_some_workers_is_for_no_others(tmp_path):
    text, known = "bearer.auth.token=x", {URLS_VARIABLE: "https://w:1,https://w:2"}
    assert access(tmp_path, text, **known).headers
    assert access(tmp_path, text, "https://w:2/, https://w:1", **known).headers
    assert access(tmp_path, text, "https://w:3", **known) == WorkerAccess()
    assert access(tmp_path, text, "https://w:1,https://w:3", **known) == WorkerAccess()
    file = str(tmp_path / "rest.properties")
    assert worker_access("https://w:3", {**known, FILE_VARIABLE: "/none"}, file).headers, "named for this one"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"basic.auth.user.info={SECRET}", "write it as USER:PASSWORD"),
        (f"basic.auth.userinfo=a:{SECRET}", "basic.auth.userinfo is no setting of it"),
        (f"basic.auth.user.info=a:{SECRET}\nbearer.auth.token=x", "two ways to log in"),
        (f"bearer.auth.token={SECRET}${{env:NONE}}", "no variable NONE"),
        ("bearer.auth.token=${file:/none/at/all}", "cannot read /none/at/all"),
        ("ssl.key.location=/key.pem", "needs ssl.certificate.location"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_without_its_secrets(tmp_path, text, words):
    with pytest.raises(BadAccess, match=words) as refused:
        access(tmp_path, text)
    assert SECRET not in str(refused.value)


def test_what_tls_has_against_a_connection_is_told():
    refused = ssl.SSLError(1, "x")
    refused.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    wrapped = OSError("wrapped")
    wrapped.__cause__ = refused
    assert "asks for a certificate" in (tls_problem(wrapped) or "")
    refused.reason = "WRONG_VERSION_NUMBER"
    assert "write http://" in (tls_problem(wrapped) or "")
    assert tls_problem(ConnectionRefusedError()) is None


def test_client_settings_are_for_the_brokers_that_they_are_said_to_be_for():
    told = {VARIABLE: written_settings("a:1,b:2", {"sasl.password": "${env:WORD}"})}
    assert known_settings("b:2", {**told, "WORD": SECRET}) == {"sasl.password": SECRET}
    assert known_settings("b:2,c:3", {**told, "WORD": SECRET}) == {}
    assert known_settings("a:1", {}) == {}
    with pytest.raises(BadReference, match="no variable WORD"):
        known_settings("a:1", told)
