"""Fields that are masked: no page, search or download tells them to whom they are masked for."""

import base64
from pathlib import Path
from urllib.parse import urlencode

import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.clusters.secured_listeners import PASSWORD
from tests.support.console.visitor import Visitor
from tests.support.eventually import eventually
from tests.system.console.conftest import GuardedConsole

pytestmark = pytest.mark.slow

CARD, PERSON, BROKEN = "4929123456781234", "Gregor Samsa", "5500005555555559"
PAGES = "/clusters/guarded/topics/payments"


def forms(secret: str) -> list[str]:
    """What a secret may look like in a page or a file."""
    data = secret.encode()
    return [secret, data.hex(), data.hex(" "), base64.b64encode(data).decode().rstrip("="), secret.replace(" ", "+")]


@pytest.fixture(scope="module")
def payments(guarded_console: GuardedConsole) -> None:
    admin = guarded_console.admin
    admin.create_topics([NewTopic("payments", 1, 1)])["payments"].result(30)
    may_read = [
        AclBinding(ResourceType.TOPIC, "payments", ResourcePatternType.LITERAL, "User:ann", "*", each, allowed)
        for each in (AclOperation.READ, AclOperation.WRITE)
        for allowed in (AclPermissionType.ALLOW,)
    ]
    for created in admin.create_acls(may_read).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": guarded_console.bootstrap})
    value = f'{{"card": {{"number": "{CARD}"}}, "sum": 5}}'.encode()
    producer.produce("payments", value, PERSON.encode(), headers=[("Who", PERSON.encode())])
    producer.produce("payments", f"card {BROKEN}".encode(), b"a key")
    assert producer.flush(30) == 0


def signed_in(console: GuardedConsole, user: str) -> Visitor:
    visitor = Visitor(console.url)
    assert visitor.sign_in("guarded", user, PASSWORD).status_code == 303
    # Once for the topic to be seen, and to be let in to it.
    eventually(lambda: visitor.get(f"{PAGES}/messages").status_code == 200, "the topic is there")
    return visitor


@pytest.mark.usefixtures("payments")
def test_no_page_search_or_download_tells_a_masked_field(guarded_console: GuardedConsole) -> None:
    asked = [
        "messages",
        "messages?order=oldest",
        "messages?q=sum",
        "messages/0/0",
        "messages/0/1",
        "messages/0/0/key",
        "messages/0/0/value",
        "messages/0/1/value",
        "messages.download/jsonl",
        "messages.download/csv",
        "sql?q=SELECT * FROM records",
        "sql.download/csv?q=SELECT * FROM records",
        "sql.download/jsonl?q=SELECT card.number FROM records",
        "publish?copy=0:0",
        f"sql?{urlencode({'q': 'SELECT * FROM records'})}",
        f"sql.download/csv?{urlencode({'q': 'SELECT * FROM records'})}",
    ]
    with signed_in(guarded_console, "ann") as ann:
        answers = {each: ann.get(f"{PAGES}/{each}") for each in asked}
        refused = [each for each, answer in answers.items() if answer.status_code != 200]
        assert refused == ["publish?copy=0:0"]
        for path, answer in answers.items():
            for secret in (CARD, PERSON, BROKEN):
                assert not [form for form in forms(secret) if form in answer.text], path
        assert "***1234" in answers["messages"].text
        assert "***1234" in answers["sql.download/jsonl?q=SELECT card.number FROM records"].text
        assert "***1234" in answers["messages.download/jsonl"].text
        assert "masked for you" in answers["messages/0/0"].text


@pytest.mark.usefixtures("payments")
def test_no_file_of_parquet_tells_a_masked_field(guarded_console: GuardedConsole, tmp_path: Path) -> None:
    kept = tmp_path / "kept.parquet"
    with signed_in(guarded_console, "ann") as ann:
        for path in ("messages.download/parquet", "sql.download/parquet?q=FROM+records"):
            answer = ann.get(f"{PAGES}/{path}")
            assert answer.status_code == 200
            kept.write_bytes(answer.content)
            told = repr(duckdb.execute(f"FROM '{kept}'").fetchall())
            assert "***1234" in told
            for secret in (CARD, PERSON, BROKEN):
                assert not [form for form in forms(secret) if form in told], path


@pytest.mark.usefixtures("payments")
def test_a_search_for_a_masked_field_finds_nothing(guarded_console: GuardedConsole) -> None:
    searches = [
        CARD,
        CARD[:8],
        PERSON,
        BROKEN,
        f"$.card.number = {CARD}",
        "$.card.number ~ 49291",
        "$.card.number > 4",
    ]
    with signed_in(guarded_console, "ann") as ann, signed_in(guarded_console, "owner") as owner:
        for words in searches:
            request = ann.client.build_request("GET", f"{PAGES}/messages.download/jsonl", params={"q": words})
            answer = ann.client.send(request)
            assert (answer.headers["x-ottla-records"], answer.headers["x-ottla-looked-at"]) == ("0", "2"), words
        request = owner.client.build_request("GET", f"{PAGES}/messages.download/jsonl", params={"q": CARD})
        assert owner.client.send(request).headers["x-ottla-records"] == "1"


@pytest.mark.usefixtures("payments")
def test_messages_that_arrive_are_masked_and_searched_as_they_are_shown(guarded_console: GuardedConsole) -> None:
    searches = {"": "***1234", "sum": "***1234", CARD: "0 found in 2 messages"}
    with signed_in(guarded_console, "ann") as ann:
        for words, wanted in searches.items():
            text = ""
            with ann.client.stream("GET", f"{PAGES}/tail.events", params={"at": "0:0", "q": words}) as stream:
                parts = stream.iter_text()
                # Each is all that there is to show, or says every few seconds that the stream goes on.
                while wanted not in text and "event: end" not in text and text.count("still here") < 2:
                    text += next(parts)
            assert wanted in text, words
            assert not [form for secret in (CARD, PERSON, BROKEN) for form in forms(secret) if form in text]


@pytest.mark.usefixtures("payments")
def test_who_is_exempt_sees_it_as_it_is(guarded_console: GuardedConsole) -> None:
    with signed_in(guarded_console, "owner") as owner:
        shown = owner.get(f"{PAGES}/messages").text
        assert CARD in shown
        assert PERSON in shown
        assert BROKEN in shown
        assert "masked for you" not in shown


@pytest.mark.usefixtures("payments")
def test_what_arrives_is_masked_in_the_live_view_too(guarded_console: GuardedConsole) -> None:
    secret = "4929 7777 8888 1234"
    producer = Producer({"bootstrap.servers": guarded_console.bootstrap})
    told = ""
    with signed_in(guarded_console, "ann") as ann, ann.client.stream("GET", f"{PAGES}/tail.events") as stream:
        for text in stream.iter_text():
            if not told:  # the first event says that the stream has begun
                producer.produce("payments", f'{{"card": {{"number": "{secret}"}}, "sum": 77123}}')
                assert producer.flush(30) == 0
            told += text
            if "77123" in told:
                break
    assert "***1234" in told
    assert not [form for form in forms(secret) if form in told]
