"""`ottla-console`, also as `python -m ottla_console`: `app` without what a service need not import."""

import sys

from ottla_core.lean_imports import run_lean


def main() -> int:
    """Run a console until SIGTERM; returns the exit code."""
    return run_lean("ottla_console.app")


if __name__ == "__main__":
    sys.exit(main())
