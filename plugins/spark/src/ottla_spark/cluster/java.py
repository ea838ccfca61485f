"""Whether there is a Java that Spark can run on."""

import os
import re
import shutil
import subprocess
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


def require_java() -> None:
    """Check that Spark will find a Java that is new enough: that of JAVA_HOME, or else `java` on the PATH.

    Raises:
        JavaMissing: there is none; the message says how to install it.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise JavaMissing(f"there is no java on the PATH. {INSTRUCTION}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{java} does not run: {error}. {INSTRUCTION}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if version is None or int(version[1]) < VERSION_MIN:
        first_line = (said.stderr or said.stdout).strip().partition("\n")[0]
        raise JavaMissing(f"{java} is too old ({first_line}). {INSTRUCTION}")
