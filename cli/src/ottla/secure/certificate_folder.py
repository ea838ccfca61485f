"""The folder that `ottla secure init` makes: one for each holder with all that it needs, and the authority's apart.

    certificates.json          whom the certificates are for
    authority/ca.pem, ca.key   signs; belongs on no machine of the cluster
    authority/former.pem       while an authority is being replaced: the former one, which is trusted still
    <holder>/ca.pem            whom to trust
    <holder>/certificate.pem, key.pem
    <holder>/both.pem          key and certificate in one file, as a listener's ssl.keystore.location takes them
    admin/client.properties    for clients, in librdkafka's words
    admin/rest.properties      for the REST APIs of workers, as OTTLA_REST_CONFIG names it

Every file is replaced by a rename, so that a reader has the former or the new one. Every step may be
repeated after it was cut short: the description is written last of all, a key and a certificate that do not belong
together are not taken, and the former authority's file stays until nobody trusts it.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from ottla.secure.authority import COMMON_NAME_LENGTH_MAX, IssuedCertificate, issue, new_authority
from ottla.secure.holders import ClusterHolders
from ottla_core.rpc_identity import ADMIN
from ottla_operations.errors import OperationError

DESCRIPTION: Final = "certificates.json"
AUTHORITY: Final = "authority"
CA, CA_KEY, FORMER_CA = "ca.pem", "ca.key", "former.pem"
CERTIFICATE, KEY, BOTH = "certificate.pem", "key.pem", "both.pem"
CLIENT_FILE: Final = "client.properties"
REST_FILE: Final = "rest.properties"
PRIVATE, PRIVATE_FOLDER = 0o600, 0o700


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What a certificate says, for people; the times are UTC."""

    holder: str
    common_name: str
    names: tuple[str, ...]
    issuer: str
    begins: datetime
    ends: datetime


class CertificateFolder:
    """The folder, by its path; `holders` are those that it was made for.

    Every method raises `OperationError` if a file cannot be read or written.

    Raises:
        OperationError: it is not there or cannot be read.
    """

    def __init__(self, path: Path, *, made_for: ClusterHolders | None = None) -> None:
        self.path = path.absolute()
        self.holders = self._read_description() if made_for is None else made_for

    @classmethod
    def create(
        cls, path: Path, holders: ClusterHolders, *, now: datetime, valid: timedelta, authority_valid: timedelta
    ) -> "CertificateFolder":
        """Make the folder with an authority and all certificates.

        Raises:
            OperationError: there is one already, or it cannot be written.
        """
        folder = cls(path, made_for=holders)
        if (folder.path / DESCRIPTION).exists():
            raise OperationError(
                f"{folder.path} has certificates already; renew them with `ottla secure renew {folder.path}`"
            )
        with folder._writing():
            _make_folder(folder.path)
            _set_aside(folder.path / AUTHORITY, now)
            _make_folder(folder.path / AUTHORITY)
            folder._write_authority(new_authority(_authority_name(holders, now), now, authority_valid))
            folder.issue_all(now, valid)
            folder._write_description()
        return folder

    def file(self, holder: str, name: str) -> Path:
        """Return where a holder's file is."""
        return self.path / holder / name

    def issue_all(self, now: datetime, valid: timedelta) -> None:
        """Give every holder a new certificate and key, and what it is to trust."""
        self.issue_for(list(self.holders.subjects()), now, valid)

    def issue_for(self, chosen: Collection[str], now: datetime, valid: timedelta) -> None:
        """Give these holders a new certificate and key; everybody trusts their authority before."""
        authority = self._authority()
        with self._writing():
            self._write_trusted()
            for holder, subject in self.holders.subjects().items():
                if holder in chosen:
                    self._write_holder(holder, issue(authority, subject, now, valid))

    def keep_up(self, holders: ClusterHolders, now: datetime, valid: timedelta, renew_before: timedelta) -> None:
        """Have certificates for all of these holders, and none that ends soon."""
        self.holders = holders
        self.issue_for({name for name in holders.subjects() if not self._is_whole(name)}, now, valid)
        own = self._authority().certificate.subject.rfc4514_string()
        self.issue_for(
            {
                facts.holder
                for facts in self.facts()
                if facts.ends - now < renew_before or (facts.issuer != own and not self._former.exists())
            },
            now,
            valid,
        )
        with self._writing():
            self._write_description()

    def begin_authority(self, now: datetime, valid: timedelta) -> None:
        """Make a new authority, which everybody trusts beside the former one; certificates stay as they are.

        Raises:
            OperationError: a replacement is under way.
        """
        with self._writing():
            present = (self.path / AUTHORITY / CA).read_bytes()
            if not self._former.exists():
                _write(self._former, present)
            if self._former.read_bytes() == present:  # also where this step was cut short, with half of the new one
                self._write_authority(new_authority(_authority_name(self.holders, now), now, valid))
            elif self._is_trusted_by_all():
                raise OperationError(
                    "an authority is being replaced already; end that with `ottla secure renew --end-authority` when "
                    "every process has a certificate of the new one"
                )
            self._write_trusted()

    def end_authority(self) -> None:
        """Have nobody trust the former authority any more.

        Raises:
            OperationError: none is being replaced, or certificates of the former one are in use.
        """
        if not self._former.exists():
            raise OperationError("no authority is being replaced")
        own = self._authority().certificate.subject
        behind = [facts.holder for facts in self.facts() if facts.issuer != own.rfc4514_string()]
        if behind:
            raise OperationError(
                f"certificates of {', '.join(behind)} are of the former authority; replace them first, with "
                f"`ottla secure renew {self.path}`"
            )
        with self._writing():
            self._write_trusted(with_former=False)
            self._former.unlink()  # last: after a failure before, this step can be repeated

    def facts(self) -> Iterator[CertificateFacts]:
        """Yield what the certificates say, the authority's first."""
        yield _facts(AUTHORITY, self.path / AUTHORITY / CA)
        for holder in self.holders.subjects():
            yield _facts(holder, self.file(holder, CERTIFICATE))

    def write_client_file(self, bootstrap: str) -> Path:
        """Write the administrator's settings, for clients in librdkafka's words and for workers; return the first."""
        certificate = {
            "ssl.ca.location": str(self.file(ADMIN, CA)),
            "ssl.certificate.location": str(self.file(ADMIN, CERTIFICATE)),
            "ssl.key.location": str(self.file(ADMIN, KEY)),
        }
        first = {"bootstrap.servers": bootstrap} if bootstrap else {}
        path = self.file(ADMIN, CLIENT_FILE)
        with self._writing():
            _write(path, _properties({**first, "security.protocol": "ssl", **certificate}))
            _write(self.rest_file, _properties(certificate))
        return path

    @property
    def rest_file(self) -> Path:
        """Where the administrator's settings for the REST APIs of workers are."""
        return self.file(ADMIN, REST_FILE)

    @property
    def _former(self) -> Path:
        return self.path / AUTHORITY / FORMER_CA

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            at = error.filename or self.path
            raise OperationError(f"cannot write {at}: {error.strerror or error}; repeat the command then") from None

    def _write_description(self) -> None:
        _write(self.path / DESCRIPTION, json.dumps(asdict(self.holders), indent=2).encode() + b"\n")

    def _read_description(self) -> ClusterHolders:
        try:
            document = json.loads((self.path / DESCRIPTION).read_text())
            hosts = {holder: tuple(names) for holder, names in document.pop("hosts").items()}
            return ClusterHolders(**document, hosts=hosts)
        except OSError as error:
            raise OperationError(
                f"{self.path} has no certificates ({error.strerror}); make them with `ottla secure init`"
            ) from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise OperationError(f"{self.path / DESCRIPTION} is not what `ottla secure init` has written") from None

    def _authority(self) -> IssuedCertificate:
        folder = self.path / AUTHORITY
        try:
            authority = IssuedCertificate((folder / CA).read_bytes(), (folder / CA_KEY).read_bytes())
        except OSError as error:
            raise OperationError(
                f"cannot read the authority in {folder} ({error.strerror}); bring {CA} and {CA_KEY} back to sign with"
            ) from None
        if not authority.is_consistent:
            raise OperationError(
                f"{folder / CA_KEY} is not the key of {folder / CA}: a replacement of the authority was cut short; "
                f"repeat `ottla secure renew {self.path} --begin-authority`"
            )
        return authority

    def _write_authority(self, authority: IssuedCertificate) -> None:
        _write(self.path / AUTHORITY / CA_KEY, authority.key)
        _write(self.path / AUTHORITY / CA, authority.chain)

    def _write_holder(self, holder: str, issued: IssuedCertificate) -> None:
        _make_folder(self.path / holder)
        _write(self.file(holder, KEY), issued.key)
        _write(self.file(holder, CERTIFICATE), issued.chain)
        _write(self.file(holder, BOTH), issued.key + issued.chain)

    def _is_whole(self, holder: str) -> bool:
        """Return whether a holder has a key, its certificate, and both in one file, which is written last."""
        try:
            key, certificate, both = (self.file(holder, name).read_bytes() for name in (KEY, CERTIFICATE, BOTH))
        except OSError:
            return False
        return both == key + certificate

    def _trusted(self, *, with_former: bool = True) -> bytes:
        trusted = (self.path / AUTHORITY / CA).read_bytes()
        return trusted + self._former.read_bytes() if with_former and self._former.exists() else trusted

    def _is_trusted_by_all(self) -> bool:
        """Return whether what is to be trusted now is so for every holder."""
        files = [self.file(holder, CA) for holder in self.holders.subjects()]
        return all(file.exists() and file.read_bytes() == self._trusted() for file in files)

    def _write_trusted(self, *, with_former: bool = True) -> None:
        trusted = self._trusted(with_former=with_former)
        for holder in self.holders.subjects():
            _make_folder(self.path / holder)
            _write(self.file(holder, CA), trusted)


def _authority_name(holders: ClusterHolders, now: datetime) -> str:
    """Return a name that no later authority of the cluster has, since certificates name theirs."""
    rest = f" authority of {now:%Y-%m-%d %H:%M:%S.%f}"
    return holders.cluster[: COMMON_NAME_LENGTH_MAX - len(rest)] + rest


def _set_aside(folder: Path, now: datetime) -> None:
    """Rename the folder of an authority, if there is one: its maker may need the key."""
    if folder.exists():
        folder.rename(folder.with_name(f"{folder.name}.before-{now:%Y%m%dT%H%M%S%f}"))


def _facts(holder: str, path: Path) -> CertificateFacts:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise OperationError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise OperationError(f"{path} is no certificate in PEM") from None
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = (
            *extension.get_values_for_type(x509.DNSName),
            *map(str, extension.get_values_for_type(x509.IPAddress)),
        )
    except x509.ExtensionNotFound:
        names = ()
    (common_name,) = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return CertificateFacts(
        holder=holder,
        common_name=str(common_name.value),
        names=names,
        issuer=certificate.issuer.rfc4514_string(),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
    )


def _make_folder(path: Path) -> None:
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def _properties(settings: Mapping[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in settings.items()).encode()


def _write(path: Path, content: bytes) -> None:
    """Replace a file by one that nobody else can read."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    beside.replace(path)
