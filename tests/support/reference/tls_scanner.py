"""sslyze, a scanner of TLS servers, in an environment of its own: it needs other releases of what Ottla needs.

The environment is made below the git-ignored `.work/`, once for each content of `sslyze-constraints.txt`.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).with_name("sslyze-constraints.txt")
CACHE = Path(__file__).resolve().parents[3] / ".work"
INSTALL_DEADLINE_S = 300.0
SCAN_DEADLINE_S = 180.0
SCANS = (
    *("--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3", "--ems"),
    *("--heartbleed", "--openssl_ccs", "--robot", "--compression", "--reneg"),
)


@cache
def unavailable_reason() -> str | None:
    """Why nothing can be scanned here, or None where it can; installs the scanner the first time."""
    folder = _folder()
    complete = folder / "complete"
    if complete.exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    commands = (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "-r", str(CONSTRAINTS)],
    )
    for command in commands:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False)
        if ran.returncode:
            return f"sslyze cannot be installed: {ran.stderr[-500:]}"
    complete.touch()
    return None


def scan(address: str, certificate: Path | None = None) -> dict[str, Any]:
    """Returns what the scanner finds of a server: the `scan_result` of its report.

    Args:
        address: of the server.
        certificate: path of PEM files without their endings, `.pem` and `.key`, for a server that asks for one.
    """
    shown = [] if certificate is None else ["--cert", f"{certificate}.pem", "--key", f"{certificate}.key"]
    command = [str(_folder() / "bin/sslyze"), "--json_out=-", "--mozilla_config=disable", *SCANS, *shown, address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SCAN_DEADLINE_S, check=False)
    assert ran.stdout, ran.stderr
    (server,) = json.loads(ran.stdout)["server_scan_results"]
    result = server["scan_result"]
    assert isinstance(result, dict), server
    return result


def _folder() -> Path:
    return CACHE / f"sslyze-{hashlib.sha256(CONSTRAINTS.read_bytes()).hexdigest()[:12]}"
