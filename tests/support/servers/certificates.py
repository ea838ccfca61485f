"""An authority and certificates that it has signed, made by the `openssl` command."""

import subprocess
from pathlib import Path


class Certificates:
    """PEM files in a directory: `ca.pem`, `server.pem`, `client.pem` and their keys, such as `ca.key`."""

    def __init__(self, directory: Path):
        directory.mkdir()
        self.directory = directory
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2")
        _openssl(
            *("req", "-x509", *key, "-subj", "/CN=test authority"),
            *("-keyout", self.path("ca.key"), "-out", self.path("ca.pem")),
        )
        for name in ("server", "client"):
            _openssl(
                *("req", "-x509", *key, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
                *("-addext", "extendedKeyUsage=serverAuth,clientAuth", "-addext", "basicConstraints=CA:FALSE"),
                *("-CA", self.path("ca.pem"), "-CAkey", self.path("ca.key")),
                *("-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.pem")),
            )

    def path(self, name: str) -> Path:
        return self.directory / name


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
