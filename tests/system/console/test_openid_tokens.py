"""A cluster that takes the access tokens of users: what they may do is what its access control lists say."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.clusters.secured_listeners import AUDIENCE
from tests.support.console.console_process import ConsoleProcess
from tests.support.console.visitor import Visitor
from tests.support.eventually import eventually
from tests.support.servers.openid_provider import CLIENT_ID, CLIENT_SECRET, OpenIdServer
from tests.system.console.conftest import GuardedConsole

pytestmark = pytest.mark.slow
TOPIC = "olgas"
PAGES = "/clusters/guarded"


@dataclass(frozen=True, slots=True)
class TokenConsole:
    """A console that shows the brokers the tokens of its users."""

    url: str
    provider: OpenIdServer
    audit: Path

    def signed_in(self) -> Visitor:
        visitor = Visitor(self.url)
        sent = visitor.get("/openid/begin?cluster=guarded")
        back = httpx.get(sent.headers["location"]).headers["location"]
        assert visitor.get(back).status_code == 303
        return visitor


@pytest.fixture
def with_tokens(guarded_console: GuardedConsole, tmp_path: Path) -> Iterator[TokenConsole]:
    with OpenIdServer(guarded_console.issuer) as provider:
        provider.subject = "olga"
        provider.access_claims = {"aud": AUDIENCE}
        settings = {
            "public.url": "{url}",
            "clusters": "guarded",
            "cluster.guarded.bootstrap.servers": guarded_console.sasl,
            "cluster.guarded.client.security.protocol": "SASL_PLAINTEXT",
            "cluster.guarded.login": "token",
            "oidc.issuer": provider.url,
            "oidc.client.id": CLIENT_ID,
            "oidc.client.secret": CLIENT_SECRET,
            "audit.log.path": str(tmp_path / "audit.log"),
        }
        with ConsoleProcess(tmp_path, settings) as running:
            yield TokenConsole(running.url, provider, tmp_path / "audit.log")


def allow(console: GuardedConsole, operation: AclOperation) -> None:
    kind, allowed = ResourceType.TOPIC, AclPermissionType.ALLOW
    rule = AclBinding(kind, TOPIC, ResourcePatternType.LITERAL, "User:olga", "*", operation, allowed)
    for created in console.admin.create_acls([rule]).values():
        created.result(30)


def values(console: GuardedConsole) -> list[bytes | None]:
    """What stands in the topic, read by a client of our own."""
    consumer = Consumer({"bootstrap.servers": console.bootstrap, "group.id": "unused"})
    try:
        place = TopicPartition(TOPIC, 0, 0)
        _, end = consumer.get_watermark_offsets(place, timeout=10)
        consumer.assign([place])
        return [message.value() for message in consumer.consume(end, timeout=20)]
    finally:
        consumer.close()


def test_rights_are_the_cluster_s_tokens_are_renewed_and_end_with_the_provider_s_word(
    guarded_console: GuardedConsole, with_tokens: TokenConsole
) -> None:
    guarded_console.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": guarded_console.bootstrap})
    producer.produce(TOPIC, b"from elsewhere")
    assert producer.flush(30) == 0
    allow(guarded_console, AclOperation.READ)
    with with_tokens.signed_in() as visitor:
        eventually(lambda: visitor.get(f"{PAGES}/topics/{TOPIC}").status_code == 200, "olga sees the topic")
        assert "letters" not in visitor.get(f"{PAGES}/topics").text  # a topic that others may see
        assert "from elsewhere" in visitor.get(f"{PAGES}/topics/{TOPIC}/messages").text

        publish = f"{PAGES}/topics/{TOPIC}/publish"
        typed = {"key_format": "none", "value_format": "text", "value": "of olga"}
        refused = visitor.post(publish, **typed)
        assert (refused.status_code, "authoriz" in refused.text.lower()) == (400, True), refused.text
        assert values(guarded_console) == [b"from elsewhere"]
        allow(guarded_console, AclOperation.WRITE)
        eventually(lambda: visitor.post(publish, **typed).status_code == 303, "olga may publish")
        assert values(guarded_console) == [b"from elsewhere", b"of olga"]

        # Workers know no rights of the cluster, so without a role connectors stay.
        connector = visitor.post(f"{PAGES}/connect/connectors/x/delete", publish, confirm="x")
        assert (connector.status_code, "olga has no role here" in connector.text) == (403, True)

        provider = with_tokens.provider
        provider.life_s = 1.0
    with with_tokens.signed_in() as visitor:
        provider.forms.clear()
        eventually(lambda: visitor.get(f"{PAGES}/topics").status_code == 200, "a token is good")
        assert {form["grant_type"] for form in provider.forms} == {"refresh_token"}
        provider.refreshes = False

        def leads_to_sign_in() -> bool:
            return "/sign-in" in visitor.get(f"{PAGES}/topics").headers.get("location", "")

        eventually(leads_to_sign_in, "the sign-in is over")
    records = [json.loads(line) for line in with_tokens.audit.read_text().splitlines()]
    assert {each["user"] for each in records} == {"olga"}
    assert ("message.publish", "done") in {(each["action"], each["outcome"]) for each in records}
