"""Parts of records that some people see masked: hidden, hashed, or down to their last characters. Pure.

A rule names parts: ``key``, ``value``, ``headers``, ``header:NAME`` (in whatever case), or places of JSON:
``$.card.number`` in the value, ``key:$.id`` in the key. Steps of a place are ``.name``, ``..name`` (at any depth),
``.*``, ``[3]`` and ``[*]``; names go through arrays by themselves, and through what Avro's JSON puts around a union.

In doubt more is masked: where a rule names a place of JSON, and a key or value is no JSON object or array, is deeper
than can be read, or names a member twice, it is hidden as a whole. So everything that reads records for people hands
them through `Mask.record` first; searching what that returns finds nothing that is not shown.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Literal

from ottla_operations.records.record_line import Headers, Record
from ottla_operations.records.record_search import NOTHING

HIDDEN: Final = "***"
HASH_CHARACTERS: Final = 16
LAST_MAX: Final = 16
PLACE: Final = re.compile(r"\$((?:\.\.?[^\s.\[\]]+|\[(?:\d{1,6}|\*)\])+)")
STEP: Final = re.compile(r"(\.\.?)([^\s.\[\]]+)|\[(\d+|\*)\]")
ANY: Final = "*"
Part = Literal["key", "value", "headers"]
Decoded = Callable[[bytes], Any]
"""Returns the JSON value of what has a schema, `NOTHING` for anything else."""


class BadMasking(ValueError):
    """A rule cannot be read; the message says what to write."""


class How(StrEnum):
    """What is shown instead: stars; a keyed hash, the same for the same content; stars and the last characters."""

    HIDE = "hide"
    HASH = "hash"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Step:
    """One step into JSON: to a member of a name (`ANY`: each), or to an element of an index (`ANY`: each)."""

    name: str | None = None
    index: int | str | None = None
    at_any_depth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedField:
    """A part of a record: a whole key, value, header (None: all of them), or what stands at a place of JSON."""

    part: Part
    header: str | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskingRule:
    """What is masked, and for whom not.

    Attributes:
        topics: names, in which ``*`` stands for any text.
        clusters: names; none for all.
        fields: parts of each record.
        how: they are masked.
        last: characters that stay with `How.LAST`.
        exempt: who sees them, as users or roles.
    """

    name: str
    topics: tuple[str, ...]
    fields: tuple[MaskedField, ...]
    how: How
    last: int = 0
    clusters: tuple[str, ...] = ()
    exempt: frozenset[str] = frozenset()

    def concerns(self, cluster: str, topic: str, who: Collection[str]) -> bool:
        """Return whether it masks records of a topic for somebody with these names and roles."""
        if self.exempt & frozenset(who) or (self.clusters and cluster not in self.clusters):
            return False
        return any(re.fullmatch(re.escape(each).replace(r"\*", ".*"), topic, re.DOTALL) for each in self.topics)


def masked_field(text: str) -> MaskedField:
    """Return the field that words stand for.

    Raises:
        BadMasking: they stand for none.
    """
    if text in ("key", "value", "headers"):
        return MaskedField(part=text)  # type: ignore[arg-type]  # one of the three
    if text.startswith("header:") and (name := text.removeprefix("header:").strip()):
        return MaskedField(part="headers", header=name.casefold())
    part: Part = "key" if text.startswith("key:") else "value"
    found = PLACE.fullmatch(text.removeprefix("key:").removeprefix("value:"))
    if found is None:
        raise BadMasking(f"{text}: a field is key, value, headers, header:NAME, $.PLACE.OF.JSON or key:$.PLACE")
    steps = tuple(
        Step(name=name, at_any_depth=dots == "..") if name else Step(index=ANY if index == ANY else int(index))
        for dots, name, index in STEP.findall(found[1])
    )
    return MaskedField(part=part, steps=steps)


def how_of(text: str) -> tuple[How, int]:
    """Return how a rule masks, and how many characters stay.

    Raises:
        BadMasking: the words stand for nothing.
    """
    word, _, number = text.partition(":")
    if text in (How.HIDE, How.HASH):
        return How(text), 0
    if word == How.LAST and number.isascii() and number.isdecimal() and 1 <= int(number[:9]) <= LAST_MAX:
        return How.LAST, int(number)
    raise BadMasking(f"{text}: write hide, hash, or last:N with N from 1 to {LAST_MAX}")


class Mask:
    """What is masked of one topic's records for somebody.

    Args:
        rules: that concern them.
        key: of hashes.
    """

    def __init__(self, rules: Sequence[MaskingRule], key: bytes) -> None:
        self._rules = rules
        self._key = key

    def __bool__(self) -> bool:
        """Return whether anything is masked."""
        return bool(self._rules)

    def record(self, record: Record, decoded: Decoded | None = None) -> Record:
        """Return a record as it may be shown, searched, or given away.

        Args:
            record: as it was read.
            decoded: decodes keys and values with a schema; what is masked therein becomes plain JSON.
        """
        if not self._rules:
            return record
        return replace(
            record,
            key=self._masked(record.key, "key", decoded),
            value=self._masked(record.value, "value", decoded),
            headers=self._masked_headers(record.headers),
        )

    def _masked(self, data: bytes | None, part: Part, decoded: Decoded | None) -> bytes | None:
        if data is None:
            return None
        for rule in self._rules:
            if any(each.part == part and not each.steps for each in rule.fields):
                data = self._of_bytes(data, rule)
        places = [(rule, each) for rule in self._rules for each in rule.fields if each.part == part and each.steps]
        return self._masked_places(data, places, decoded) if places else data

    def _masked_places(
        self, data: bytes, places: Iterable[tuple[MaskingRule, MaskedField]], decoded: Decoded | None
    ) -> bytes:
        try:
            document = decoded(data) if decoded is not None else NOTHING
            may_have_unions = document is not NOTHING
            if document is NOTHING:
                document = json.loads(data, object_pairs_hook=_members)
            if not isinstance(document, dict | list):
                return HIDDEN.encode()
            was_found = False
            for rule, each in places:
                for container, place in _slots(document, each.steps, may_have_unions=may_have_unions):
                    container[place] = self._of_value(container[place], rule)
                    was_found = True
            # What has nothing to mask keeps its own digits and order.
            return json.dumps(document, ensure_ascii=False, default=str).encode() if was_found else data
        except (ValueError, RecursionError):
            return HIDDEN.encode()

    def _masked_headers(self, headers: Headers) -> Headers:
        masked = tuple(headers)
        for rule in self._rules:
            names = {each.header for each in rule.fields if each.part == "headers"}
            masked = tuple(
                (name, self._of_bytes(data, rule))
                if data is not None and (None in names or name.casefold() in names)
                else (name, data)
                for name, data in masked
            )
        return masked

    def _of_bytes(self, data: bytes, rule: MaskingRule) -> bytes:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = None
        return self._shown(data, text, rule).encode(errors="replace")

    def _of_value(self, value: Any, rule: MaskingRule) -> Any:
        if value is None:
            return None
        if isinstance(value, dict | list):
            written = json.dumps(value, ensure_ascii=False, default=str, sort_keys=True)
            return self._shown(written.encode(errors="surrogatepass"), None, rule)
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        return self._shown(text.encode(errors="surrogatepass"), text, rule)

    def _shown(self, data: bytes, text: str | None, rule: MaskingRule) -> str:
        """Return what is shown of bytes; `text` is theirs where the last characters of it say something."""
        if rule.how is How.HASH:
            return f"hash:{hmac.new(self._key, data, hashlib.sha256).hexdigest()[:HASH_CHARACTERS]}"
        # The last characters of something short would be most of it.
        if rule.how is How.LAST and text is not None and len(text) >= 2 * rule.last:
            return f"{HIDDEN}{text[-rule.last :]}"
        return HIDDEN


class Masking:
    """All rules.

    Args:
        rules: in the order in which they are applied.
        key: of hashes; a secret, as few contents are long enough not to be guessed.
    """

    def __init__(self, rules: Sequence[MaskingRule], key: bytes) -> None:
        self._rules = tuple(rules)
        self._key = key

    def of(self, cluster: str, topic: str, who: Collection[str]) -> Mask:
        """Return what is masked of a topic's records for somebody with these names and roles."""
        return Mask([each for each in self._rules if each.concerns(cluster, topic, who)], self._key)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; of a member that is there twice, readers disagree which one counts.

    Raises:
        ValueError: one is.
    """
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member is there twice")
    return members


def _slots(document: Any, steps: Sequence[Step], *, may_have_unions: bool) -> Collection[tuple[Any, Any]]:
    """Return where the places are: containers, and names or indexes in them; without recursion, however deep."""
    nodes: list[Any] = [document]
    found: dict[tuple[int, Any], tuple[Any, Any]] = {}
    for step in steps:
        # By identity, as several ways may lead to one place, which is masked once.
        found = {(id(slot[0]), slot[1]): slot for node in nodes for slot in _next_slots(node, step, may_have_unions)}
        nodes = [container[place] for container, place in found.values()]
    if not may_have_unions:
        return found.values()
    return [
        (inner, next(iter(inner))) if _may_be_union(inner := container[place]) else (container, place)
        for container, place in found.values()
    ]


def _next_slots(node: Any, step: Step, may_have_unions: bool) -> Iterator[tuple[Any, Any]]:
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            if step.name is not None:
                pending.extend(each)
            else:
                chosen = range(len(each)) if step.index == ANY else [step.index]
                yield from ((each, index) for index in chosen if isinstance(index, int) and index < len(each))
        elif isinstance(each, dict):
            if step.name is not None:
                yield from (
                    (each, name) for name in (list(each) if step.name == ANY else [step.name]) if name in each
                )
            if step.at_any_depth or (may_have_unions and _may_be_union(each)):
                pending.extend(each.values())


def _may_be_union(value: Any) -> bool:
    """Return whether a value may be the branch of a union, as ``{"string": "x"}``; a record of one field may, too."""
    return isinstance(value, dict) and len(value) == 1
