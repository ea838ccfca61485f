"""What was wrong with a command line, in one line and with a suggestion."""

import sys

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError, NoSuchOption, UsageError

CANCELLED = 1
NUMBERS = {
    "int range": "whole number",
    "integer range": "whole number",
    "integer": "whole number",
    "int": "whole number",
    "float range": "number",
    "float": "number",
}
"""What Typer calls the kinds of numbers, and what people do."""


def told_usage_problem(error: Exception) -> int | None:
    """Say on standard error what Typer found wrong; return the exit code, or None if this is another error."""
    if isinstance(error, typer.Abort):
        print("ottla: cancelled", file=sys.stderr)
        return CANCELLED
    if not isinstance(error, ClickException):
        return None
    print(error.message if isinstance(error, NoArgsIsHelpError) else f"ottla: {_in_words(error)}", file=sys.stderr)
    return int(error.exit_code)


def _in_words(error: ClickException) -> str:
    if isinstance(error, NoSuchOption):
        text = f"there is no option {error.option_name}{_suggested(error.possibilities or ())}"
    else:
        text = error.format_message()
        for kind, words in NUMBERS.items():
            text = text.replace(f"is not a valid {kind}.", f"is no {words}")
        text = (text[:1].lower() + text[1:]).replace(". Did you mean", "; did you mean").rstrip(".")
    if not isinstance(error, UsageError) or error.ctx is None:
        return text
    return f"{text} (`{error.ctx.command_path} --help` shows more)"


def _suggested(names: object) -> str:
    found = sorted(str(name) for name in names) if isinstance(names, list | tuple) else []
    return f"; did you mean {' or '.join(found)}?" if found else ""
