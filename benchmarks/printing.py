"""What programs print: how far they are on standard error, and what they found on standard output."""

import argparse
import json
import sys
from collections.abc import Mapping

from benchmarks.summary import Measures, short, table


def say(what: str) -> None:
    """Tell how far a program is."""
    print(what, file=sys.stderr, flush=True)


def report(found: Mapping[str, Measures], chosen: argparse.Namespace) -> None:
    """Print what was found, as a table for each case or, with `--json`, as a document."""
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for program, measures in found.items():
        print(table([program, ""], [[name, short(value)] for name, value in measures.items()]))
