"""`python -m ottla_group_coordinator`, and the program itself: `app` without what a service need not import."""

import sys

from ottla_core.lean_imports import run_lean


def main() -> int:
    """Run a group coordinator until SIGTERM; returns the exit code."""
    return run_lean("ottla_group_coordinator.app")


if __name__ == "__main__":
    sys.exit(main())
