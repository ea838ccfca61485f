"""Each step with certificates is cut short at each of its writes, and repeated: the folder is whole then."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from cryptography import x509

from ottla.secure import certificate_folder
from ottla.secure.certificate_folder import CertificateFolder
from ottla.secure.holders import ClusterHolders
from ottla_operations.errors import OperationError

NOW = datetime(2026, 3, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
LATER = NOW + timedelta(days=1)
HOLDERS = ClusterHolders(cluster="flights", counts={"broker": 2, "controller": 1}, administrator="admin", hosts={})
GROWN = ClusterHolders(cluster="flights", counts={"broker": 3, "controller": 1}, administrator="admin", hosts={})
CUTS_MAX = 60


class CutShortError(Exception):
    """The process ends here."""


def made(path: Path) -> CertificateFolder:
    return CertificateFolder.create(path, HOLDERS, now=NOW, valid=YEAR, authority_valid=10 * YEAR)


def replaced(path: Path) -> CertificateFolder:
    folder = made(path)
    folder.begin_authority(LATER, 10 * YEAR)
    folder.issue_all(NOW, YEAR)
    return folder


def cuts(
    monkeypatch: pytest.MonkeyPatch, folder: Path, step: Callable[[Path], object], *, before: Callable[[Path], object]
) -> Iterator[Path]:
    """Carries out a step again and again, in a new folder and cut short one write later each time, until it is whole.

    Args:
        monkeypatch: ends the step.
        folder: where the folders are made.
        step: what is cut short, given its folder.
        before: what makes the folder for it.
    """
    write = certificate_folder._write
    for writes in count():
        assert writes < CUTS_MAX
        path = folder / str(writes)
        before(path)
        left = [writes]

        def until_the_cut(path: Path, content: bytes, left: list[int] = left) -> None:
            if not left[0]:
                raise CutShortError
            left[0] -= 1
            write(path, content)

        monkeypatch.setattr(certificate_folder, "_write", until_the_cut)
        try:
            step(path)
        except CutShortError:
            monkeypatch.setattr(certificate_folder, "_write", write)
            yield path
        else:
            monkeypatch.setattr(certificate_folder, "_write", write)
            assert writes > 3
            return


def check_is_whole(folder: CertificateFolder, authorities: int) -> None:
    assert CertificateFolder(folder.path).holders == folder.holders
    trusted = (folder.path / "authority" / "ca.pem").read_bytes()
    for holder in folder.holders.subjects():
        key, certificate, both, ca = (
            folder.file(holder, name).read_bytes() for name in ("key.pem", "certificate.pem", "both.pem", "ca.pem")
        )
        assert both == key + certificate
        assert ca.startswith(trusted)
        known = x509.load_pem_x509_certificates(ca)
        assert len(known) == authorities
        own = x509.load_pem_x509_certificate(certificate)
        (issuer,) = [each for each in known if each.subject == own.issuer]
        own.verify_directly_issued_by(issuer)


def test_certificates_that_were_not_all_made_are_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in cuts(monkeypatch, tmp_path, made, before=lambda _: None):
        check_is_whole(made(path), 1)


def test_an_authority_that_was_begun_in_part_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(path: Path) -> None:
        CertificateFolder(path).begin_authority(LATER, 10 * YEAR)

    for path in cuts(monkeypatch, tmp_path, begin, before=made):
        begin(path)
        check_is_whole(CertificateFolder(path), 2)
        with pytest.raises(OperationError, match="being replaced already"):
            begin(path)


def test_half_of_an_authority_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(path: Path) -> None:
        CertificateFolder(path).begin_authority(LATER, 10 * YEAR)

    refused = 0
    for path in cuts(monkeypatch, tmp_path, begin, before=made):
        folder = CertificateFolder(path)
        before = {holder: folder.file(holder, "key.pem").read_bytes() for holder in folder.holders.subjects()}
        try:
            folder.issue_all(NOW, YEAR)
        except OperationError as error:
            refused += "repeat `ottla secure renew" in str(error)
            assert before == {holder: folder.file(holder, "key.pem").read_bytes() for holder in before}
    assert refused == 1


def test_an_authority_ended_for_some_is_ended_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(path: Path) -> None:
        CertificateFolder(path).end_authority()

    for path in cuts(monkeypatch, tmp_path, end, before=replaced):
        end(path)
        check_is_whole(CertificateFolder(path), 1)


def test_a_cluster_that_grew_in_part_grows_when_it_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow(path: Path) -> None:
        CertificateFolder(path).keep_up(GROWN, NOW, YEAR, timedelta(days=30))

    for path in cuts(monkeypatch, tmp_path, grow, before=made):
        grow(path)
        folder = CertificateFolder(path)
        assert folder.holders == GROWN
        check_is_whole(folder, 1)


def test_a_holder_that_was_away_while_the_authority_was_replaced_gets_a_certificate_of_the_new_one(
    tmp_path: Path,
) -> None:
    folder = CertificateFolder.create(tmp_path / "tls", GROWN, now=NOW, valid=YEAR, authority_valid=10 * YEAR)
    folder.keep_up(HOLDERS, NOW, YEAR, timedelta(days=30))
    folder.begin_authority(LATER, 10 * YEAR)
    folder.issue_all(NOW, YEAR)
    folder.end_authority()
    folder.keep_up(GROWN, NOW, YEAR, timedelta(days=30))
    check_is_whole(folder, 1)


def test_an_authority_without_certificates_is_set_aside_and_not_overwritten(tmp_path: Path) -> None:
    folder = made(tmp_path / "tls")
    key = (folder.path / "authority" / "ca.key").read_bytes()
    (folder.path / "certificates.json").unlink()
    made(tmp_path / "tls")
    assert [path.read_bytes() for path in folder.path.glob("authority.before-*/ca.key")] == [key]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    folder = made(tmp_path / "tls")
    (folder.path / "broker-1" / "ca.pem").unlink()
    (folder.path / "broker-1" / "ca.pem").mkdir()
    for step in (lambda: folder.issue_all(NOW, YEAR), lambda: folder.begin_authority(LATER, YEAR)):
        with pytest.raises(OperationError, match=r"cannot write .*broker-1"):
            step()
