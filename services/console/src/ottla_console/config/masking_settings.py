"""Rules for fields that are masked, by settings below `masking.rule.`. Pure."""

from collections.abc import Collection, Mapping
from typing import Final

from ottla_operations.records.record_masking import BadMasking, MaskingRule, how_of, masked_field

PREFIX: Final = "masking.rule."
KEYS: Final[Mapping[str, str]] = {
    "fields": "What is masked: key, value, headers, header:NAME, $.PLACE.OF.JSON (in the value) or key:$.PLACE; "
    "several with commas between.",
    "how": "hide, hash, or last:N, which leaves the last N characters.",
    "topics": "Names of topics, in which * stands for any text; by default all.",
    "clusters": "Names of clusters; by default all.",
    "exempt": "Who sees the fields as they are: names of users, or role:NAME.",
}
"""Every key below `masking.rule.NAME.`, with what it says."""


def masking_rules(
    names: tuple[str, ...], written: Mapping[str, str], clusters: Collection[str]
) -> tuple[MaskingRule, ...]:
    """Return the rules of the names.

    Args:
        names: in the order in which they are applied.
        written: settings below `masking.rule.`.
        clusters: those that there are.

    Raises:
        ValueError: names every setting that is wrong.
    """
    problems = [f"masking.rules: {each!r} is no name of a rule" for each in names if not each or "." in each]
    prefixes = tuple(f"{PREFIX}{name}." for name in names)
    problems += [f"{key}: no such rule in masking.rules" for key in written if not key.startswith(prefixes)]
    found: list[MaskingRule] = []
    for name in names:
        prefix = f"{PREFIX}{name}."
        own = {key.removeprefix(prefix): value for key, value in written.items() if key.startswith(prefix)}
        problems += [f"{prefix}{key}: unknown setting" for key in own if key not in KEYS]
        # A rule for a cluster of another name would mask nothing, and nobody would notice.
        unknown = [each for each in _words(own.get("clusters", "")) if each not in clusters]
        problems += [f"{prefix}clusters: there is no cluster {each}" for each in unknown]
        try:
            found.append(_rule(name, own))
        except BadMasking as error:
            problems.append(f"{prefix}{error}")
    if len(set(names)) < len(names):
        problems.append("masking.rules: a name is there twice")
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(found)


def _rule(name: str, own: Mapping[str, str]) -> MaskingRule:
    fields = _words(own.get("fields", ""))
    if not fields:
        raise BadMasking("fields: must be set")
    try:
        how, last = how_of(own.get("how", "").strip())
    except BadMasking as error:
        raise BadMasking(f"how: {error}") from None
    try:
        masked = tuple(masked_field(each) for each in fields)
    except BadMasking as error:
        raise BadMasking(f"fields: {error}") from None
    return MaskingRule(
        name=name,
        topics=_words(own.get("topics", "*")) or ("*",),
        fields=masked,
        how=how,
        last=last,
        clusters=_words(own.get("clusters", "")),
        exempt=frozenset(_words(own.get("exempt", ""))),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
