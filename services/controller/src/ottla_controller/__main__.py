"""`ottla-controller`, also as `python -m ottla_controller`: `app` without what a service need not import."""

import sys

from ottla_core.lean_imports import run_lean


def main() -> int:
    """Run a controller until SIGTERM; returns the exit code."""
    return run_lean("ottla_controller.app")


if __name__ == "__main__":
    sys.exit(main())
