"""The certificates of a local cluster, by a process of its own; see `local/secure_start.py` for its arguments.

Makes what is missing, and renews what ends soon. They are for this machine.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ottla.secure.certificate_folder import DESCRIPTION, CertificateFolder
from ottla.secure.holders import ClusterHolders
from ottla_operations.errors import OperationError

VALID: Final = timedelta(days=365)
AUTHORITY_VALID: Final = timedelta(days=3650)
RENEWED_BEFORE: Final = timedelta(days=30)
ADMINISTRATOR: Final = "admin"


def main(arguments: Sequence[str]) -> int:
    """Make them, and return the exit code."""
    folder, cluster, bootstrap, *texts = arguments
    counts = {role: int(count) for role, _, count in (text.partition("=") for text in texts)}
    holders = ClusterHolders(cluster=cluster, counts=counts, administrator=ADMINISTRATOR, hosts={})
    path, now = Path(folder), datetime.now(UTC)
    try:
        if (path / DESCRIPTION).exists():
            made = CertificateFolder(path)
            made.keep_up(holders, now, VALID, RENEWED_BEFORE)
        else:
            made = CertificateFolder.create(path, holders, now=now, valid=VALID, authority_valid=AUTHORITY_VALID)
        made.write_client_file(bootstrap)
    except OperationError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
