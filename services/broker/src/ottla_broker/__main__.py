"""`ottla-broker`, also as `python -m ottla_broker`: `app` without what a service need not import."""

import sys

from ottla_core.lean_imports import run_lean


def main() -> int:
    """Run a broker until SIGTERM; returns the exit code."""
    return run_lean("ottla_broker.app")


if __name__ == "__main__":
    sys.exit(main())
