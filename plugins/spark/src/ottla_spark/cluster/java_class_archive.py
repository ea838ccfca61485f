"""An archive of the classes that Spark loads (JEP 350): with one, Java starts in about half the time.

The first `ottla sql` of a user has Java write it when it ends, under another name; when it is whole, it gets its own.
Its name says for which Java and which PySpark it is, so another installation makes another one, and the oldest are
removed. Java itself compares the jars with those of the archive, and starts without it where they differ.
"""

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

DEFAULT_OPTIONS_KEY = "spark.driver.defaultJavaOptions"
OPTION_KEYS = (DEFAULT_OPTIONS_KEY, "spark.driver.extraJavaOptions")
OPTION_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""Java does not start where two of its options name a collector."""
CONFIGURATION_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Folders on Java's class path, with which it makes no archive."""
COMPILER = "-XX:TieredStopAtLevel=1"
COLLECTOR = "-XX:+UseSerialGC"
QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
"""An archive that does not fit is no news, and standard output is the command's."""
SUFFIX, UNFINISHED = ".jsa", ".unfinished"
ARCHIVES_MAX = 2
SIZE_MAX_BYTES = 512 << 20
UNFINISHED_KEPT_S = 3600.0


@dataclass(frozen=True, slots=True)
class QuickStart:
    """How Java is started so that a first answer comes soon.

    Attributes:
        options: Java's.
        archive: where the archive is to be; None if there is none to be made.
        unfinished: where Java writes it, which no other process does.
    """

    options: tuple[str, ...]
    archive: Path | None = None
    unfinished: Path | None = None

    def keep(self, *, ended_well: bool) -> None:
        """Take over what Java has written, when it has ended; remove what nobody needs any more.

        Args:
            ended_well: whether Java has ended by itself; one that was killed has written nothing whole.
        """
        if self.archive is None or self.unfinished is None:
            return
        with suppress(OSError):
            if ended_well and self.unfinished.exists() and self.unfinished.stat().st_size <= SIZE_MAX_BYTES:
                self.unfinished.replace(self.archive)
            elif ended_well:
                self.archive.touch()  # empty: it cannot be made here, so nobody tries again
            self.unfinished.unlink(missing_ok=True)
            _tidy(self.archive.parent)


def quick_start(java: Path, version: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> QuickStart:
    """Return how Java is started for a session that lives for seconds or minutes.

    Args:
        java: the program.
        version: its.
        settings: Spark's, which go before ours.
        environment: of this process.
    """
    said = " ".join(
        [
            *(settings.get(key, "") for key in OPTION_KEYS),
            *(environment.get(variable, "") for variable in OPTION_VARIABLES),
        ]
    )
    options = [option for option, word in ((COMPILER, "TieredStopAtLevel"), (COLLECTOR, "GC")) if word not in said]
    archive = archive_path(java, version, environment)
    if archive is None or re.search(r"SharedArchiveFile|ArchiveClassesAtExit|-Xshare", said):
        return QuickStart(tuple(options))
    with suppress(OSError):
        if archive.exists():
            if archive.stat().st_size == 0:
                return QuickStart(tuple(options))
            os.utime(archive)
            return QuickStart((*options, f"-XX:SharedArchiveFile={archive}", *QUIET))
        archive.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(archive.parent, os.W_OK) or shutil.disk_usage(archive.parent).free < SIZE_MAX_BYTES:
            return QuickStart(tuple(options))  # Java would fail at the end of every session
        # Not by the process id: containers that share the folder have the same ones.
        made = archive.with_suffix(f".{secrets.token_hex(8)}{UNFINISHED}")
        return QuickStart((*options, f"-XX:ArchiveClassesAtExit={made}", *QUIET), archive, made)
    return QuickStart(tuple(options))


def archive_path(java: Path, version: str, environment: Mapping[str, str]) -> Path | None:
    """Return where the archive for a Java and the installed PySpark is; None where Java makes none."""
    if any(environment.get(each) for each in CONFIGURATION_FOLDERS):
        return None
    home = environment.get("SPARK_HOME")
    jars = (Path(home) if home else Path(pyspark.__file__).parent) / "jars"
    try:
        stamps = [(str(each.resolve()), each.stat().st_mtime_ns) for each in (java, jars)]
    except OSError:
        return None
    digest = hashlib.sha256(repr(stamps).encode()).hexdigest()[:12]
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "ottla" / "spark-classes" / f"{pyspark.__version__}-java-{version}-{digest}{SUFFIX}"


def _tidy(folder: Path) -> None:
    """Remove the archives that were used least recently, and what others have begun and left."""
    archives = sorted(folder.glob(f"*{SUFFIX}"), key=lambda each: each.stat().st_mtime, reverse=True)
    begun_before = time.time() - UNFINISHED_KEPT_S
    left = [each for each in folder.glob(f"*{UNFINISHED}") if each.stat().st_mtime < begun_before]
    for each in (*archives[ARCHIVES_MAX:], *left):
        each.unlink(missing_ok=True)
