"""The server's side of SCRAM: RFC 7677's example, and everything that is not quite it."""

import base64

import pytest

from ottla_broker.sasl.exchange import Accepted, Challenge, CredentialWanted, FoundCredential, Refused
from ottla_broker.sasl.scram import Scram
from ottla_core.client import sasl as client_sasl
from ottla_core.cluster.state.security import ScramMechanism
from ottla_core.principal import USER, Principal
from ottla_core.scram import credential_of, salted_password

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def found(
    password: str = "pencil",
    *,
    mechanism: ScramMechanism = ScramMechanism.SHA_256,
    user: str = "user",
    is_known: bool = True,
) -> FoundCredential:
    salted = salted_password(mechanism, password, SALT, 4096)
    credential = credential_of(mechanism, salted, SALT, 4096)
    return FoundCredential(credential=credential, is_known=is_known, principal=Principal(USER, user))


def begun(first: bytes = FIRST, credential: FoundCredential | None = None) -> Scram:
    """An exchange that waits for the client's proof."""
    exchange = Scram(ScramMechanism.SHA_256, SERVER_NONCE)
    assert isinstance(exchange.respond(first), CredentialWanted)
    exchange.go_on(credential or found())
    return exchange


def test_the_example_of_the_rfc_is_accepted() -> None:
    exchange = Scram(ScramMechanism.SHA_256, SERVER_NONCE)
    assert exchange.respond(FIRST) == CredentialWanted("user", of_token=False)
    assert exchange.go_on(found()) == Challenge(SERVER_FIRST)
    assert exchange.respond(FINAL) == Accepted(principal=Principal(USER, "user"), message=SERVER_FINAL)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("user", ["user", "a,b=c", "Žofie"])
def test_both_sides_of_ottla_agree(mechanism: ScramMechanism, user: str) -> None:
    client = client_sasl.begin(mechanism.sasl_name, user, "päßwort", nonce="clientnonce")
    exchange = Scram(mechanism, "servernonce")
    wanted = exchange.respond(client.first())
    assert wanted == CredentialWanted(user, of_token=False)
    proof = client.respond(exchange.go_on(found("päßwort", mechanism=mechanism, user=user)).message)
    assert proof is not None
    accepted = exchange.respond(proof)
    assert isinstance(accepted, Accepted)
    assert accepted.principal.name == user
    assert client.respond(accepted.message) is None, "the server has proved itself"


def test_a_wrong_password_is_refused() -> None:
    assert begun(credential=found("pencils")).respond(FINAL) == Refused("wrong password of user 'user'")


def test_the_right_password_of_a_name_that_is_unknown_is_refused() -> None:
    assert begun(credential=found(is_known=False)).respond(FINAL) == Refused("user 'user' is unknown")


def test_a_token_is_told_from_a_user() -> None:
    exchange = Scram(ScramMechanism.SHA_256, SERVER_NONCE)
    assert exchange.respond(FIRST + b",tokenauth=true") == CredentialWanted("user", of_token=True)


def test_a_proof_of_another_exchange_is_refused() -> None:
    exchange = Scram(ScramMechanism.SHA_256, "another")
    exchange.respond(FIRST)
    exchange.go_on(found())
    step = exchange.respond(FINAL)
    assert isinstance(step, Refused)
    assert "nonce" in step.reason


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=ab\x00c",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=user,r=abc,m=ext",
        b"n,a=other,n=user,r=abc",
        b"n,,n=\xff\xfe,r=abc",
        b"n,,n=" + b"u" * 20_000 + b",r=abc",
    ],
)
def test_a_bad_first_message_is_refused(first: bytes) -> None:
    exchange = Scram(ScramMechanism.SHA_256, SERVER_NONCE)
    assert isinstance(exchange.respond(first), Refused)
    assert exchange.respond(FIRST) == Refused("a message out of turn")


@pytest.mark.parametrize(
    "final",
    [
        b"",
        FIRST,
        FINAL.replace(b"biws", b"eSws"),  # the client said n,, before, and y,, now
        FINAL.replace(b"biws", b"====="),
        FINAL[:-3],
        FINAL.replace(b",p=dHzb", b",p=dHzc"),
        FINAL.replace(b"r=rOpr", b"r=xOpr"),
        FINAL.replace(b",p=", b",m=1,p="),
        FINAL + b",more=1",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=",
        b"\xff",
    ],
)
def test_a_bad_final_message_is_refused_and_ends_the_exchange(final: bytes) -> None:
    exchange = begun()
    assert isinstance(exchange.respond(final), Refused)
    assert exchange.respond(FINAL) == Refused("a message out of turn")


def test_messages_after_the_end_are_refused() -> None:
    exchange = begun()
    assert isinstance(exchange.respond(FINAL), Accepted)
    assert exchange.respond(FINAL) == Refused("a message out of turn")


def test_a_credential_shows_no_key() -> None:
    assert "stored_key" not in repr(found())


def test_a_client_that_may_be_tricked_out_of_channel_binding_is_refused() -> None:
    """Its proof is right, but somebody on the way has changed what it said of channel binding."""
    step = begun(b"y" + FIRST[1:]).respond(FINAL)
    assert isinstance(step, Refused)
    assert "another beginning" in step.reason
