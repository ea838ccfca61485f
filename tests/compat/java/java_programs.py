"""Programs of this folder that run with Kafka's jars: compiled once for each test, and started as processes."""

import subprocess
from pathlib import Path

from tests.support.reference.java_class_archive import QUICK_START
from tests.support.reference.kafka_jars import kafka_classpath

FOLDER = Path(__file__).parent
COMPILE_DEADLINE_S = 180.0
QUIET_LOGGING = "status=error\nrootLogger.level=warn\nrootLogger.appenderRef.out.ref=out\nappender.out.type=Console\n"
QUIET_LOGGING += (
    "appender.out.name=out\nappender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d %p %m%n\n"
)


class JavaProgram:
    """A Java source file of this folder.

    Args:
        name: of its class.
        directory: where the compiled classes go.
        heap_mib: at most.
    """

    def __init__(self, name: str, directory: Path, *, heap_mib: int):
        self._name = name
        self._classes = directory / f"{name}-classes"
        self._heap_mib = heap_mib
        command = ["javac", "-cp", kafka_classpath(), "-d", str(self._classes), str(FOLDER / f"{name}.java")]
        compiled = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_DEADLINE_S, check=False)
        assert compiled.returncode == 0, compiled.stderr
        (self._classes / "log4j2.properties").write_text(QUIET_LOGGING)

    def command(self, *arguments: str) -> list[str]:
        """What starts it."""
        classpath = f"{self._classes}:{kafka_classpath()}"
        return ["java", *QUICK_START, f"-Xmx{self._heap_mib}m", "-cp", classpath, self._name, *arguments]
