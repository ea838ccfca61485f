"""Every API is either recorded as a change or known to change nothing, and records have no secrets."""

from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.static.primitive import i16

from ottla_broker.audit.audited_requests import CHANGES, NO_CHANGES, changed_resources
from ottla_broker.dispatch import APIS, OWN_APIS
from ottla_core.wire.conversion import entity_in, message_of
from ottla_core.wire.links_messages import LINKS_KEY, LinksMethod, LinksRequest
from tests.support.clients.right_probes import PROBES, Things

TOPIC_ID = UUID(int=7)
NAMES = {TOPIC_ID: "seen"}


def resources(api_key: int, message: Any) -> list[str] | None:
    return changed_resources(api_key, message, NAMES.get)


def test_each_api_is_recorded_or_known_to_change_nothing() -> None:
    served = {*APIS, *OWN_APIS}
    assert served <= CHANGES.keys() | NO_CHANGES, "write the API into CHANGES, or into NO_CHANGES"
    assert not CHANGES.keys() & NO_CHANGES


def test_each_change_names_what_it_is_about() -> None:
    things = Things(dict.fromkeys(("seen", "hidden", "absent", "seen-doomed"), TOPIC_ID), 1)
    probed = [probe for probe in PROBES if probe.api_key in CHANGES and probe.api_key != LINKS_KEY]
    assert probed
    for probe in probed:
        message = probe.request(things)
        found = resources(probe.api_key, message)
        if getattr(message, "validate_only", False):
            assert found is None
        else:
            assert found, probe.name


def test_values_of_settings_and_passwords_are_not_told() -> None:
    request = load_request_schema(44, 1)
    resource = entity_in(request, "resources")
    assert resource is not None
    config = entity_in(resource, "configs")
    assert config is not None
    setting = message_of(config, name="ssl.key.password", config_operation=0, value="planted-secret")
    message = message_of(
        request,
        resources=(message_of(resource, resource_type=4, resource_name="1", configs=(setting,)),),
        validate_only=False,
    )
    assert resources(44, message) == ["BROKER:1 (ssl.key.password)"]
    request = load_request_schema(51, 0)
    upsertion = entity_in(request, "upsertions")
    assert upsertion is not None
    user = message_of(
        upsertion, name="ann", mechanism=1, iterations=4096, salt=b"planted", salted_password=b"planted-secret"
    )
    assert resources(51, message_of(request, deletions=(), upsertions=(user,))) == ["USER:ann"]


def test_a_topic_that_is_deleted_by_its_id_is_named() -> None:
    request = load_request_schema(20, 6)
    topic = entity_in(request, "topics")
    assert topic is not None
    topics = (message_of(topic, name=None, topic_id=TOPIC_ID), message_of(topic, name=None, topic_id=UUID(int=9)))
    found = resources(20, message_of(request, topics=topics))
    assert found == ["TOPIC:seen", f"TOPIC:{UUID(int=9)}"]


def test_looking_at_links_is_no_change() -> None:
    assert resources(LINKS_KEY, LinksRequest(method=i16(LinksMethod.DESCRIBE_LINKS), body=b"")) is None
    assert resources(LINKS_KEY, LinksRequest(method=i16(LinksMethod.PROMOTE), body=b"")) == ["LINKS:PROMOTE"]
