"""Progress of a suite in whole lines, for suites that run side by side and whose lines are mixed on one screen.

`make test` and `make test-all` load it (`-p tests.progress`). In place of pytest's dots, a line tells how many
tests are done, at most every `--progress-every` seconds, and at once when one fails.
"""

import time
from collections.abc import Generator

import pytest

EVERY_S_DEFAULT = 15.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the command line say how often."""
    parser.addoption(
        "--progress-every", type=float, default=EVERY_S_DEFAULT, metavar="SECONDS", help="the least time between two"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to watch."""
    config.pluginmanager.register(Progress(config, config.getoption("--progress-every")))


class Progress:
    """Counts the tests of one run.

    Args:
        config: of the run, which has the terminal.
        every_s: the least time between two lines, but for failures.
    """

    def __init__(self, config: pytest.Config, every_s: float):
        self._config = config
        self._every_s = every_s
        self._total = self._done = 0
        self._test_s = 0.0
        self._failed = False
        self._told_at_s = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, tuple[object, ...], tuple[object, ...]]:
        """Keep the category, by which pytest counts, and the word for its summary, and show no letter."""
        category, _, word = yield
        return category, "", word

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take note of how many there are."""
        self._total = len(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one phase of a test."""
        self._test_s += report.duration
        self._failed |= report.failed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tell of a test that has ended, if it is time."""
        self._done += 1
        failed, took_s = self._failed, self._test_s
        self._failed, self._test_s = False, 0.0
        if failed or time.monotonic() - self._told_at_s >= self._every_s:
            self._told_at_s = time.monotonic()
            outcome = "FAILED" if failed else "done"
            line = f"{self._done} of {self._total} {outcome}: {nodeid} ({took_s:.1f} s)\n"
            # The terminal reporter alone writes past the capture of what tests print.
            self._config.pluginmanager.getplugin("terminalreporter").write(line, flush=True)
