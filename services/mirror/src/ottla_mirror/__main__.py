"""`ottla-mirror`, also as `python -m ottla_mirror`: `app` without what a service need not import."""

import sys

from ottla_core.lean_imports import leave_out_extras


def main() -> int:
    """Run a mirror worker until SIGTERM; returns the exit code."""
    leave_out_extras()
    from ottla_mirror import app  # noqa: PLC0415 - imports what looks for the extras

    return app.main()


if __name__ == "__main__":
    sys.exit(main())
