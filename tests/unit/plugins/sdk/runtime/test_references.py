"""How references to config providers are written."""

from ottla_sdk.runtime.references import Reference, has_reference, put_back, replaced


def test_references_are_found():
    assert has_reference("${env:HOME}")
    assert has_reference("jdbc:${file:/etc/db.properties:host}/x")
    assert not has_reference("${topic}-${timestamp}")
    assert not has_reference("plain")


def test_references_are_replaced_wherever_they_stand():
    seen = []

    def look_up(reference):
        seen.append(reference)
        return {"a": "1", "b": "2"}.get(reference.key)

    assert replaced("${p:a}-${p:/path/x:b}-${p:c}", look_up) == "1-2-${p:c}"
    assert seen == [Reference("p", "", "a"), Reference("p", "/path/x", "b"), Reference("p", "", "c")]


def test_a_task_gets_references_back_where_the_connector_has_copied_a_setting():
    written = {"user": "${env:USER}", "password": "${env:PASSWORD}", "plain": "x"}
    resolved = {"user": "joe", "password": "secret", "plain": "x"}
    task = {"user": "somebody else", "password": "secret", "plain": "x", "task": "1"}
    assert put_back(task, written, resolved, str) == {
        "user": "somebody else",
        "password": "${env:PASSWORD}",
        "plain": "x",
        "task": "1",
    }
