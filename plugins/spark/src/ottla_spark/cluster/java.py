"""Whether there is a Java that Spark can run on."""

import os
import re
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ottla_sdk import FatalError

VERSION_MIN = 17
ASK_TIMEOUT_S = 30.0
INSTRUCTION = (
    f"Apache Spark needs Java {VERSION_MIN} or newer; install it (Debian: apt-get install openjdk-17-jre-headless), "
    "or let JAVA_HOME name the folder of one"
)


class JavaMissing(FatalError):
    """There is no Java that Spark can run on."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark will find.

    Attributes:
        program: its path.
        version: such as ``17.0.15``.
    """

    program: Path
    version: str


def require_java() -> Java:
    """Return the Java that Spark will find, if it is new enough: that of JAVA_HOME, or else `java` on the PATH.

    Raises:
        JavaMissing: there is none; the message says how to install it.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise JavaMissing(f"there is no java on the PATH. {INSTRUCTION}")
    said = _release(Path(java)) or _said_version(java)
    version = re.search(r'version "(?:1\.)?((\d+)[^"]*)"', said, re.IGNORECASE)
    if version is None or int(version[2]) < VERSION_MIN:
        first_line = said.strip().partition("\n")[0]
        raise JavaMissing(f"{java} is too old ({first_line}). {INSTRUCTION}")
    return Java(Path(java), version[1])


def _release(java: Path) -> str:
    """Return what the file of an installation says, as Java would; empty without one. To ask Java takes longer."""
    with suppress(OSError, UnicodeDecodeError):
        if not os.access(java, os.X_OK):
            return ""
        text = (java.resolve().parent.parent / "release").read_text()
        if version := re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE):
            return f'java version "{version[1]}"'
    return ""


def _said_version(java: str) -> str:
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{java} does not run: {error}. {INSTRUCTION}") from None
    return said.stderr or said.stdout
