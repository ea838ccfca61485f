"""Properties files, as Java writes them: `key=value` lines, comments, and lines that go on in the next one."""

from collections.abc import Iterator
from pathlib import Path

from ottla_core.errors import ConfigurationError


def read_properties(path: Path) -> dict[str, str]:
    """Return the `key=value` lines of a properties file; `#` and `!` begin comments.

    As in Java, a line that ends with a backslash goes on in the next one, whose indentation does not count.

    Raises:
        ConfigurationError: the file cannot be read, or a line is no assignment.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the configuration file {path}: {error}") from None
    values: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, equals, value = line.partition("=")
        if not equals:
            # Without its text: the second line of a secret may look like this.
            raise ConfigurationError(f"{path}:{number}: not a key=value line")
        values[key.strip()] = value.strip()
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are no comments with the number of each, continued ones as one."""
    beginning, number = "", 0
    for current, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not beginning:
            if not stripped or stripped[0] in "#!":
                continue
            number = current
        joined = beginning + stripped
        backslashes = len(joined) - len(joined.rstrip("\\"))
        if backslashes % 2:
            beginning = joined[:-1]
        else:
            yield number, joined
            beginning = ""
    if beginning:
        yield number, beginning
