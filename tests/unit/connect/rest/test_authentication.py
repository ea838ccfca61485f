"""Who may use a worker's REST API, over real sockets with TLS: two workers, of which the second one leads."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from ottla.secure.authority import IssuedCertificate, Subject, issue, new_authority
from ottla_connect.herder.api import Health
from ottla_connect.herder.signatures import sign
from ottla_connect.rest.application import create_application
from ottla_connect.rest.resources import tasks
from ottla_core.principal_mapping import parse_mapping_rules
from ottla_core.rest import authentication, basic_users
from ottla_core.rest.access_settings import RestAccess
from ottla_core.rest.authentication import Access
from ottla_core.rest.forwarding import freshly_signed
from ottla_core.rest.password_hashes import hash_of
from ottla_core.rest.server import RestServer
from ottla_core.rest.settings import Listener, RestTls
from ottla_core.rest.tls_files import client_tls
from ottla_core.rest.worker_signatures import OWN_ACCOUNT, SIGNATURE_HEADER, SharedKey
from ottla_core.tokens.token_claims import BearerSettings, ClaimRules
from tests.support.servers.issuer import Issuer
from tests.unit.connect.rest.scripted_herder import SESSION_KEY, ScriptedHerder

CONFIG = {"connector.class": "ottla_file.FileSource", "topic": "t"}
NEW = {"name": "x", "config": CONFIG}
DAY = timedelta(days=1)
ADMINISTRATORS = frozenset({"ann", "ops"})

pytestmark = pytest.mark.asyncio(loop_scope="module")


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


@dataclass
class Workers:
    """Two workers with a certificate each may show, and who may sign whom."""

    folder: Path
    authority: IssuedCertificate
    servers: list[RestServer]
    accesses: list[Access]
    herders: list[ScriptedHerder]
    issuer: Issuer

    def url(self, number: int = 0) -> str:
        return f"https://127.0.0.1:{self.servers[number].bound[0].port}"

    def client(self, user: str | None = None, authority: IssuedCertificate | None = None) -> httpx.AsyncClient:
        context = ssl.create_default_context(cafile=self.folder / "ca.pem")
        if user is not None:
            both = self.folder / f"{user}.pem"
            write(both, issue(authority or self.authority, Subject(user), datetime.now(UTC), DAY))
            context.load_cert_chain(both)
        return httpx.AsyncClient(base_url=self.url(), verify=context, trust_env=False)


def write(path: Path, issued: IssuedCertificate) -> None:
    """Puts a key with its certificate into place at once, as whoever renews certificates does."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(issued.key + issued.chain)
    fresh.replace(path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workers]:
    folder = tmp_path_factory.mktemp("rest")
    authority = new_authority("tests", datetime.now(UTC), DAY)
    (folder / "ca.pem").write_bytes(authority.chain)
    write(folder / "worker.pem", issue(authority, Subject("worker", ("127.0.0.1",)), datetime.now(UTC), DAY))
    (folder / "users").write_text(f"ann:{hash_of('right', b'1' * 16)}\nbob:{hash_of('bobs', b'2' * 16)}\n")
    issuer = Issuer()
    (folder / "keys.json").write_bytes(issuer.key_set())
    tls = RestTls(
        certificate=folder / "worker.pem",
        key=folder / "worker.pem",
        key_password=None,
        authorities=folder / "ca.pem",
        client_certificates="requested",
    )
    rules = ClaimRules(audiences=frozenset(), issuer=None, subject_claim="sub", scope_claim="scope", skew_s=0)
    settings = RestAccess(
        administrators=ADMINISTRATORS,
        users=folder / "users",
        certificate_rules=parse_mapping_rules("RULE:^CN=(.*?)$/$1/,DEFAULT"),
        tokens=BearerSettings(
            jwks_url=(folder / "keys.json").as_uri(), authorities="", refresh_ms=60_000, rules=rules
        ),
    )
    made = Workers(folder, authority, [], [], [], issuer)
    for _ in range(2):
        server = RestServer([Listener("https", "127.0.0.1", 0)], tls)
        url, signer = str(server.bound[0]), SharedKey(lambda: SESSION_KEY)
        access = Access(settings, signer, own_url=url, is_internal=tasks.is_internal)
        herder = ScriptedHerder()
        app = create_application(herder, own_url=url, forwarding_tls=client_tls(tls), access=access)
        await server.serve(app)
        made.servers.append(server)
        made.accesses.append(access)
        made.herders.append(herder)
    made.herders[0].leader = made.url(1)
    yield made
    await asyncio.gather(*(server.close() for server in made.servers))


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch, workers: Workers) -> None:
    monkeypatch.setattr(authentication, "FAILURE_DELAY_S", 0.0)
    for herder in workers.herders:
        herder.configs.clear()


async def test_health_is_open_and_all_else_asks(workers):
    async with workers.client() as client:
        assert (await client.get("/health")).status_code == 200
        for path in ("/", "/connectors", "/docs", "/openapi.json", "/health/x", "//health", "/nothing"):
            answer = await client.get(path)
            assert answer.status_code == 401, path
            assert answer.json() == {"error_code": 401, "message": "Authentication is required"}
            assert answer.headers.get_list("www-authenticate") == [
                'Basic realm="ottla", charset="UTF-8"', 'Bearer realm="ottla"', 'Certificate realm="ottla"',
            ]  # fmt: skip
        assert (await client.post("/connectors", json=NEW)).status_code == 401
    assert not workers.herders[1].configs


async def test_health_tells_a_stranger_no_reasons(workers):
    herder = workers.herders[0]
    former, herder.state_of_health = herder.state_of_health, Health(status="unhealthy", message="broker x is away")
    async with workers.client() as client:
        answer = await client.get("/health")
    herder.state_of_health = former
    assert answer.status_code == 500
    assert "broker x" not in answer.text


async def test_a_password_opens_and_a_wrong_one_is_counted(workers):
    counts = workers.accesses[0].counts
    async with workers.client() as client:
        for _ in range(2):
            assert (await client.get("/connectors", headers=basic("bob", "bobs"))).status_code == 200
        before = counts.failed_authentications
        for wrong in (
            basic("bob", "right"),
            basic("eve", "right"),
            {"Authorization": "Basic !"},
            {"Authorization": "x"},
        ):
            assert (await client.get("/connectors", headers=wrong)).status_code == 401
    assert counts.failed_authentications == before + 4


async def test_who_is_no_administrator_only_reads(workers):
    async with workers.client() as client:
        answer = await client.post("/connectors", json=NEW, headers=basic("bob", "bobs"))
        assert (answer.status_code, answer.json()["error_code"]) == (403, 403)
        assert not workers.herders[1].configs
        assert (await client.post("/connectors", json=NEW, headers=basic("ann", "right"))).status_code == 201
    assert list(workers.herders[1].configs) == ["x"], "the leader has carried it out"


async def test_a_certificate_names_its_user_and_the_leader_learns_who_that_is(workers):
    async with workers.client("ops") as client:
        assert (await client.post("/connectors", json=NEW)).status_code == 201
    assert list(workers.herders[1].configs) == ["x"]
    async with workers.client("guest") as client:
        assert (await client.get("/connectors")).status_code == 200
        assert (await client.delete("/connectors/x")).status_code == 403
    foreign = new_authority("another", datetime.now(UTC), DAY)
    async with workers.client("ops", foreign) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get("/connectors")


async def test_a_token_names_its_user(workers):
    async with workers.client() as client:
        good = {"Authorization": f"Bearer {workers.issuer.token('ann')}"}
        assert (await client.post("/connectors", json=NEW, headers=good)).status_code == 201
        unprintable = workers.issuer.token("ann\nbob")
        for token in (Issuer().token("ann"), workers.issuer.token("ann", life_s=-60), "x", unprintable):
            answer = await client.get("/connectors", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401


def signed_by_a_worker(workers, caller, path, body, *, method="POST", audience=1):
    headers = freshly_signed(
        SharedKey(lambda: SESSION_KEY), caller, audience=workers.url(audience), method=method,
        target=path.encode(), body=body,
    )  # fmt: skip
    return {**headers, "Content-Type": "application/json"}


async def test_a_signed_request_counts_once_at_one_worker_with_the_body_that_was_signed(workers):
    path, body = "/connectors?forward=false", json.dumps(NEW).encode()
    async with workers.client() as client:
        client.base_url = httpx.URL(workers.url(1))
        signed = signed_by_a_worker(workers, "ann", path, b'{"name": "a"}')
        assert (await client.post(path, content=body, headers=signed)).status_code == 403
        forged = {**signed, SIGNATURE_HEADER: "0" * 64}
        assert (await client.post(path, content=body, headers=forged)).status_code == 401
        for_another = signed_by_a_worker(workers, "ann", path, body, audience=0)
        assert (await client.post(path, content=body, headers=for_another)).status_code == 401
        assert not workers.herders[1].configs
        signed = signed_by_a_worker(workers, "ann", path, body)
        assert (await client.post(path, content=body, headers=signed)).status_code == 201
        workers.herders[1].configs.clear()
        assert (await client.post(path, content=body, headers=signed)).status_code == 401, "it came before"
        assert not workers.herders[1].configs


async def test_a_bad_signature_is_not_made_good_by_a_workers_certificate(workers):
    async with workers.client("ops") as client:
        client.base_url = httpx.URL(workers.url(1))
        signed = signed_by_a_worker(workers, "ann", "/connectors", b"", method="GET", audience=0)
        assert (await client.get("/connectors", headers=signed)).status_code == 401
        assert (await client.get("/connectors", headers=signed | basic("bob", "bobs"))).status_code == 200


async def test_what_was_sent_on_unsigned_is_not_the_sending_workers_to_ask(workers):
    """A worker that asks nobody shows its own certificate with whatever anybody asks it."""
    async with workers.client("ops") as client:
        client.base_url = httpx.URL(workers.url(1))
        for hop in ("true", "false"):
            assert (await client.post(f"/connectors?forward={hop}", json=NEW)).status_code == 401
            assert (await client.get(f"/connectors?forward={hop}")).status_code == 401
    assert not workers.herders[1].configs


async def test_what_workers_alone_may_ask_needs_their_signatures_and_no_user(workers):
    path, body = "/connectors/x/tasks", b"[]"
    by_session_key = sign(SESSION_KEY, "HmacSHA256", "POST", path, body)
    async with workers.client("ops") as client:
        client.base_url = httpx.URL(workers.url(1))
        await client.post("/connectors", json=NEW)
        sent = {"Content-Type": "application/json"} | by_session_key
        assert (await client.post(path, content=body, headers=sent)).status_code == 403
        for_a_user = signed_by_a_worker(workers, "ann", path, body) | by_session_key
        assert (await client.post(path, content=body, headers=for_a_user)).status_code == 403
        bad = signed_by_a_worker(workers, OWN_ACCOUNT, path, body)
        assert (await client.post(path, content=body, headers=bad)).status_code == 400
        bad |= sign(b"another key", "HmacSHA256", "POST", path, body)
        assert (await client.post(path, content=body, headers=bad)).status_code == 403, "it came before"
        bad |= signed_by_a_worker(workers, OWN_ACCOUNT, path, body)
        assert (await client.post(path, content=body, headers=bad)).status_code == 403
    async with workers.client() as client:
        client.base_url = httpx.URL(workers.url(1))
        good = signed_by_a_worker(workers, OWN_ACCOUNT, path, body) | by_session_key
        assert (await client.post(path, content=body, headers=good)).status_code == 204


async def test_a_page_of_another_site_changes_nothing_for_a_user_whom_the_browser_makes_known(workers):
    async with workers.client("ops") as client:
        await client.post("/connectors", json=NEW)
        foreign = {"Origin": "https://evil.example"}
        assert (await client.post("/connectors/x/restart", headers=foreign)).status_code == 403
        assert (await client.get("/connectors", headers=foreign)).status_code == 200
        own = {"Origin": workers.url()}
        assert (await client.post("/connectors/x/restart", headers=own)).status_code != 403


async def test_who_is_known_is_served_while_many_guess_passwords(workers, monkeypatch):
    monkeypatch.setattr(basic_users, "CHECKS_WAITING_MAX", 2)
    async with workers.client() as client:
        assert (await client.get("/", headers=basic("bob", "bobs"))).status_code == 200
        guesses = [client.get("/", headers=basic("bob", f"guess {number}")) for number in range(12)]
        answers = asyncio.gather(*guesses)
        assert (await client.get("/", headers=basic("bob", "bobs"))).status_code == 200
        assert {each.status_code for each in await answers} == {401, 503}


async def test_users_whose_passwords_changed_are_read_again_and_a_bad_file_changes_nothing(workers):
    users = workers.folder / "users"
    async with workers.client() as client:
        assert (await client.get("/", headers=basic("bob", "bobs"))).status_code == 200
        users.write_text(f"bob:{hash_of('fresh', b'3' * 16)}\nann:{hash_of('right', b'1' * 16)}\n# another size")
        assert (await client.get("/", headers=basic("bob", "bobs"))).status_code == 401
        users.write_text("bob=plain")
        assert (await client.get("/", headers=basic("bob", "fresh"))).status_code == 200
        users.write_text(f"ann:{hash_of('right', b'1' * 16)}\n")
        assert (await client.get("/", headers=basic("bob", "fresh"))).status_code == 401


async def test_a_renewed_certificate_and_authority_are_taken_up_by_new_connections(workers):
    fresh = new_authority("fresh", datetime.now(UTC), DAY)
    former = (workers.folder / "ca.pem").read_bytes()
    workers.folder.joinpath("ca.pem").write_bytes(fresh.chain)
    write(workers.folder / "worker.pem", issue(fresh, Subject("worker", ("127.0.0.1",)), datetime.now(UTC), DAY))
    async with workers.client("ops", fresh) as client:
        assert (await client.post("/connectors", json=NEW)).status_code == 201, "forwarded, too"
    async with workers.client("ops", workers.authority) as client:
        with pytest.raises(httpx.HTTPError):
            await client.get("/connectors")
    workers.folder.joinpath("worker.pem").write_text("no certificate")
    async with workers.client("ops", fresh) as client:
        assert (await client.get("/connectors")).status_code == 200, "the former certificate stays"
    workers.folder.joinpath("ca.pem").write_bytes(former)
