"""Secrets do not get into logs and messages."""

import io
import json
from urllib.parse import quote, quote_plus

from ottla_sdk.runtime.redaction import RedactedStream, Redaction


def test_values_are_replaced_by_their_references():
    redaction = Redaction()
    redaction.add({"${env:A}": "secret", "${env:B}": "secret-and-more"})
    assert redaction.text("secret, secret-and-more") == "${env:A}, ${env:B}"


def test_short_values_stay():
    redaction = Redaction()
    redaction.add({"${env:N}": "1"})
    assert redaction.text("1 of 10") == "1 of 10"


def test_nothing_is_changed_before_anything_is_known():
    assert Redaction().text("text") == "text"


def test_values_are_found_as_messages_write_them():
    redaction = Redaction()
    secret = 'p@ss "w\\rd"'
    redaction.add({"${env:P}": secret})
    for form in (repr(secret), json.dumps(secret), f"sql://joe:{quote(secret, safe='')}@db", quote_plus(secret)):
        assert "${env:P}" in redaction.text(form)
        assert "ss" not in redaction.text(form).replace("${env:P}", "")


def test_a_line_of_a_key_is_hidden_too():
    redaction = Redaction()
    redaction.add({"${file:k:key}": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----\n"})
    assert "MIIEvQ" not in redaction.text("unexpected MIIEvQIBADANBgkqhkiG in line 2")


def test_what_is_printed_is_redacted():
    redaction = Redaction()
    redaction.add({"${env:P}": "hunter22"})
    raw = io.BytesIO()
    stream = RedactedStream(io.TextIOWrapper(raw, encoding="utf-8"), redaction)
    print("password:", "hunter22", file=stream)
    assert raw.getvalue() == b"password: ${env:P}\n"
