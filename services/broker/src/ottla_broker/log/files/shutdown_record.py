"""Whether a log directory may have lost records since the broker used it last: `shutdown-record` beside its logs.

A process that ends, even by kill -9, loses nothing: what it has written is in the kernel's hands. A machine that
loses power, or is reset, loses what was not fsynced. The two are told apart by the kernel's boot id: a directory that
was not closed cleanly, and was used under another boot id, may have lost records. The file remembers under which
broker epoch such a directory was first registered, as the controller might not have seen that registration when the
next one comes; and after which recovery of the cluster's state that was (`Recovery.number`). Each recovery has epochs
counted anew, and what was lost before it is said by the registrations that it writes. Kafka asks for a clean stop
instead (CleanShutdownFileHandler), since it cannot tell the two apart.

A failed fsync is worse than a loss of power: the kernel may have dropped what it had taken, and still show it to
whoever reads, so recovery finds nothing missing. The directory then holds the file `fsync-failed`, and the next start
counts as one after an unclean shutdown, under whichever boot. That stands in the record until the registration.
Everything here blocks.
"""

from pathlib import Path
from typing import Final, NamedTuple

import structlog

from ottla_broker.log.files.checkpoint_file import replace_file, sync_directory
from ottla_core.cluster.state.model import NO_EPOCH

SHUTDOWN_RECORD: Final = "shutdown-record"
FSYNC_FAILED: Final = "fsync-failed"
VERSION: Final = "1"
"""Of the file; one without a version is of this one."""
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_logger: Final = structlog.get_logger("log.directory")


class ShutdownRecord(NamedTuple):
    """What is known of the last use of a log directory.

    Attributes:
        boot_id: under which the directory was used; empty if unknown.
        intact_since: since which broker epoch nothing was lost in it: `NO_EPOCH` for the next one, 0 for ever.
        fsync_failed: where something may be lost, whether that may be because an fsync had failed.
        recovery: the recovery of the cluster's state after which `intact_since` was counted.
        keeps_copies: it was written by a release that keeps a copy of the cluster's state beside it.
    """

    boot_id: str
    intact_since: int
    fsync_failed: bool
    recovery: int = 0
    keeps_copies: bool = True


def begin_record(directory: Path, *, was_clean: bool, recovery: int = 0) -> ShutdownRecord:
    """Note that a directory is in use under the present boot; return what the record is now.

    Args:
        directory: the log directory.
        was_clean: it is new, or was closed cleanly.
        recovery: the number of the last recovery of the cluster's state.

    Raises:
        OSError: the directory cannot be used.
    """
    boot_id = _boot_id()
    former = read_record(directory)
    intact_since = former.intact_since
    if former.recovery != recovery and intact_since != NO_EPOCH:
        intact_since = 0
    mark = directory / FSYNC_FAILED
    fsync_failed = mark.exists() or (intact_since == NO_EPOCH and former.fsync_failed)
    if mark.exists() or (not was_clean and (former.boot_id != boot_id or not boot_id)):
        intact_since = NO_EPOCH
        _logger.warning(
            "what was not fsynced may be lost. Replicas in this directory become in sync again when they have caught"
            " up",
            reason="an fsync had failed" if fsync_failed else "the machine went down while it was in use",
            directory=str(directory),
        )
    write_record(directory, intact_since, fsync_failed=fsync_failed, recovery=recovery)
    mark.unlink(missing_ok=True)  # only now, or a crash in between would forget it
    return ShutdownRecord(boot_id, intact_since, fsync_failed, recovery)


def may_lack_records(directory: Path, *, was_clean: bool) -> bool:
    """Return whether what was not fsynced in a directory may be lost since its last use; changes nothing.

    Raises:
        OSError: it cannot be read.
    """
    record, boot_id = read_record(directory), _boot_id()
    is_other_boot = not was_clean and (record.boot_id != boot_id or not boot_id)
    return is_other_boot or record.intact_since == NO_EPOCH or (directory / FSYNC_FAILED).exists()


def note_failed_fsync(directory: Path) -> None:
    """Have the next start know that an fsync has failed, as far as the disk takes note of anything any more."""
    try:
        (directory / FSYNC_FAILED).touch()
        sync_directory(directory)
    except OSError as error:
        _logger.error("a log directory may forget that an fsync has failed in it", problem=str(error))


def write_record(directory: Path, intact_since: int, *, fsync_failed: bool = False, recovery: int = 0) -> None:
    """Replace the record; raises OSError."""
    fields = {
        "version": VERSION,
        "boot.id": _boot_id(),
        "intact.since": intact_since,
        "fsync.failed": str(fsync_failed).lower(),
        "recovery": recovery,
    }
    replace_file(directory / SHUTDOWN_RECORD, "".join(f"{name}={value}\n" for name, value in fields.items()))


def _boot_id() -> str:
    """Return what changes whenever the kernel starts, or nothing where there is no such thing."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def read_record(directory: Path) -> ShutdownRecord:
    """Return the record; without a boot id if it is missing or damaged, and then with the worst if it is damaged."""
    path = directory / SHUTDOWN_RECORD
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ShutdownRecord("", 0, fsync_failed=False)
    fields = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        if fields.get("version", VERSION) != VERSION:
            raise ValueError(fields["version"])
        return ShutdownRecord(
            fields["boot.id"],
            int(fields["intact.since"]),
            fsync_failed=fields.get("fsync.failed") != "false",
            recovery=int(fields.get("recovery", "0")),
            keeps_copies="recovery" in fields,
        )
    except (KeyError, ValueError):
        _logger.warning("a shutdown record is unreadable; the shutdown counts as unclean", file=str(path))
        return ShutdownRecord("", NO_EPOCH, fsync_failed=True)
