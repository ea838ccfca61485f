"""`ottla-broker`, also as `python -m ottla_broker`: `app` without what a service need not import."""

import sys

from ottla_core.lean_imports import leave_out_extras


def main() -> int:
    """Run a broker until SIGTERM; returns the exit code."""
    leave_out_extras()
    from ottla_broker import app  # noqa: PLC0415 - imports what looks for the extras

    return app.main()


if __name__ == "__main__":
    sys.exit(main())
