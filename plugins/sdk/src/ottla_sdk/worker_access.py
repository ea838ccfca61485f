"""How programs make themselves known to the REST APIs of workers: a file of settings, named by the environment.

The variable `OTTLA_REST_CONFIG` names the file, one of Java's properties with the names in `SETTINGS`. Where
`OTTLA_REST_CONFIG_URLS` says for which URLs it is, as a profile and a local cluster do, it is for no others: what
logs in at one cluster is never sent to another one.
"""

import ssl
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla_sdk.local_references import BadReference, content_of, resolved
from ottla_sdk.runtime.java_properties import parse_properties

FILE_VARIABLE: Final = "OTTLA_REST_CONFIG"
URLS_VARIABLE: Final = "OTTLA_REST_CONFIG_URLS"
CA, CERTIFICATE, KEY, KEY_PASSWORD = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
USER_INFO, TOKEN = "basic.auth.user.info", "bearer.auth.token"
SETTINGS: Final[Mapping[str, str]] = {
    CA: "PEM file with the authorities of workers' certificates; by default those of the system.",
    CERTIFICATE: "PEM file with the certificate that is shown; its key may be in the same file.",
    KEY: "PEM file with the private key.",
    KEY_PASSWORD: "Password of the private key.",
    USER_INFO: "User and password, as USER:PASSWORD.",
    TOKEN: "Bearer token.",
}
"""Every setting with a sentence. Values may be `${env:NAME}` or `${file:PATH}`."""
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
_WANTS_CERTIFICATE: Final = "TLSV13_ALERT_CERTIFICATE_REQUIRED"


class BadAccess(Exception):
    """The file of settings cannot be used; the message says why, without any value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAccess:
    """What is shown to workers, and whom to trust.

    Attributes:
        file: where it comes from; empty if there is no file.
        authorities: PEM file; empty for those of the system.
        certificate: PEM file; empty if none is shown.
        key: PEM file; empty if the certificate's has it.
        key_password: of the key.
        user: who logs in with a password; empty if nobody does.
        authorization: what the header of that name says; empty if it is not sent.
    """

    file: str = ""
    authorities: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    user: str = ""
    authorization: str = field(default="", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that go with every request."""
        return {"Authorization": self.authorization} if self.authorization else {}

    def tls(self) -> ssl.SSLContext:
        """Return how workers with an https URL are trusted, and what is shown to them.

        Raises:
            BadAccess: a file cannot be read, or is no PEM.
        """
        try:
            context = ssl.create_default_context(cafile=self.authorities or None)
        except (OSError, ssl.SSLError) as error:
            raise BadAccess(f"{self.file}: {CA}={self.authorities}: {_reason(error)}") from None
        if self.certificate:
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(self.certificate, self.key or None, self.key_password)
            except (OSError, ssl.SSLError) as error:
                raise BadAccess(f"{self.file}: {CERTIFICATE}={self.certificate}: {_reason(error)}") from None
        return context

    def why_unknown(self, url: str, challenges: str) -> str:
        """Return what to say when a worker does not know who asks.

        Args:
            url: of the worker, without what logs in.
            challenges: the header ``WWW-Authenticate`` of its answer.
        """
        accepted = [way for way in ("Basic", "Bearer", "Certificate") if f"{way} " in challenges]
        accepts = f" (it accepts {', '.join(accepted)})" if accepted else ""
        shown = f"the password of {self.user}" if self.user else "the token" if self.authorization else ""
        shown = shown or ("the certificate" if self.certificate else "")
        if shown:
            return f"the worker at {url} does not accept {shown} of {self.file}{accepts}"
        return (
            f"the worker at {url} asks who you are{accepts}: have {FILE_VARIABLE} name a file with {USER_INFO}, "
            f"{TOKEN} or {CERTIFICATE}"
        )


def worker_access(urls: str, environment: Mapping[str, str], file: str | None = None) -> WorkerAccess:
    """Return what is shown to workers at these URLs.

    Args:
        urls: with commas between several.
        environment: variables, which name the file and hold what it refers to.
        file: the file, where another one is meant than the environment's.

    Raises:
        BadAccess: the file cannot be read, or has something else.
    """
    known = environment.get(URLS_VARIABLE) if file is None else None
    file = file or environment.get(FILE_VARIABLE, "")
    if not file:
        return WorkerAccess()
    if known is not None and not set(_each(urls)) <= set(_each(known)):
        return WorkerAccess()
    settings = _read(file, environment)
    if unknown := sorted(settings.keys() - SETTINGS.keys()):
        raise BadAccess(f"{file}: {unknown[0]} is no setting of it; there are {', '.join(SETTINGS)}")
    user_info, token = settings.get(USER_INFO, ""), settings.get(TOKEN, "")
    user, colon, _ = user_info.partition(":")
    if user_info and not (colon and user):
        raise BadAccess(f"{file}: {USER_INFO}: write it as USER:PASSWORD")
    if user_info and token:
        raise BadAccess(f"{file}: {USER_INFO} and {TOKEN} are two ways to log in; keep one of them")
    if settings.get(KEY) and not settings.get(CERTIFICATE):
        raise BadAccess(f"{file}: {KEY} needs {CERTIFICATE} beside it")
    authorization = f"Bearer {token}" if token else ""
    if user_info:
        authorization = f"Basic {b64encode(user_info.encode()).decode()}"
    return WorkerAccess(
        file=file,
        authorities=settings.get(CA, ""),
        certificate=settings.get(CERTIFICATE, ""),
        key=settings.get(KEY, ""),
        key_password=settings.get(KEY_PASSWORD, ""),
        user=user,
        authorization=authorization,
    )


def tls_problem(error: BaseException) -> str | None:
    """Return what TLS has against a connection that failed, as half a sentence; None if it was something else."""
    found = next((each for each in _chain(error) if isinstance(each, ssl.SSLError)), None)
    if found is None:
        return None
    if isinstance(found, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted: {found.verify_message}; {CA} in the file that {FILE_VARIABLE} names "
            "says whose certificates are"
        )
    reason = found.reason or ""
    if reason in _NO_TLS:
        return "it does not speak TLS; write http://"
    if reason == _WANTS_CERTIFICATE:
        return f"it asks for a certificate; {CERTIFICATE} in the file that {FILE_VARIABLE} names says which to show"
    if "ALERT" in reason:
        return f"it refuses this client: {reason.lower().replace('_', ' ')}"
    return f"TLS fails: {_reason(found)}"


def _read(file: str, environment: Mapping[str, str]) -> dict[str, str]:
    try:
        settings = parse_properties(content_of(file))
    except BadReference as problem:
        raise BadAccess(str(problem)) from None
    found = {}
    for key, value in settings.items():
        try:
            found[key] = resolved(value, environment)
        except BadReference as problem:
            raise BadAccess(f"{file}: {key}: {problem}") from None
    return found


def _each(urls: str) -> list[str]:
    return [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]


def _chain(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__ or current.__context__


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)
