from ottla_connect.task.redaction import Redaction


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
