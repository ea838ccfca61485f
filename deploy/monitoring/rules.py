"""The rules of Prometheus in deploy/prometheus/rules, as data."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

RULES: Final = Path(__file__).parents[1] / "prometheus" / "rules" / "ottla.yaml"

Rule = Mapping[str, Any]


def rules() -> Sequence[Rule]:
    """Return every rule, in order."""
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def alerts() -> Iterator[Rule]:
    """Yield the rules that call somebody."""
    return (rule for rule in rules() if "alert" in rule)


def recorded_names() -> frozenset[str]:
    """Return the names of series that rules make."""
    return frozenset(rule["record"] for rule in rules() if "record" in rule)
