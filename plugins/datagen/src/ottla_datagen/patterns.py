r"""Patterns for strings: a small part of regular expressions, read into a tree and then written out at random. Pure.

There are characters, ``\d`` (a digit), ``\w`` (a letter, a digit or ``_``), a backslash before a character that
means something else, ``[a-f0-9]``, ``(one|two)``, and behind each of these ``?``, ``{3}`` or ``{2,5}``.
"""

import string
from collections.abc import Callable
from dataclasses import dataclass

from ottla_datagen.draws import Draws

REPETITIONS_MAX = 1_000
LENGTH_MAX = 100_000

Writer = Callable[[Draws], str]

_CLASSES = {"d": string.digits, "w": string.ascii_letters + string.digits + "_"}
_SPECIAL = frozenset("()[]{}|?*+.^$\\")


class InvalidPattern(ValueError):
    """A pattern makes no sense; the message says where and why."""


@dataclass(frozen=True, slots=True)
class _Part:
    write: Writer
    length_max: int


def pattern_writer(pattern: str) -> Writer:
    """Return a function that writes strings that the pattern matches.

    Raises:
        InvalidPattern: it is not of the form that this module describes, or its strings may be too long.
    """
    reader = _Reader(pattern)
    part = reader.alternatives()
    if reader.next_character():
        raise reader.problem(f"a {reader.next_character()!r} that nothing opened")
    if part.length_max > LENGTH_MAX:
        raise InvalidPattern(f"pattern {pattern!r}: its strings may be longer than {LENGTH_MAX} characters")
    return part.write


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._place = 0

    def problem(self, what: str) -> InvalidPattern:
        return InvalidPattern(f"pattern {self._pattern!r}, character {self._place + 1}: {what}")

    def next_character(self) -> str:
        return self._pattern[self._place : self._place + 1]

    def alternatives(self) -> _Part:
        choices = [self._sequence()]
        while self.next_character() == "|":
            self._place += 1
            choices.append(self._sequence())
        if len(choices) == 1:
            return choices[0]
        writers = [choice.write for choice in choices]
        return _Part(
            lambda draws: writers[draws.below(len(writers))](draws), max(choice.length_max for choice in choices)
        )

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while (character := self.next_character()) and character not in "|)":
            parts.append(self._repeated(self._atom()))
        if len(parts) == 1:
            return parts[0]
        writers = [part.write for part in parts]
        return _Part(
            lambda draws: "".join([write(draws) for write in writers]), sum(part.length_max for part in parts)
        )

    def _atom(self) -> _Part:
        character = self._taken()
        if character == "(":
            part = self.alternatives()
            if self._taken() != ")":
                raise self.problem("a ( is not closed")
            return part
        if character == "[":
            return _one_of(self._set())
        if character == "\\":
            escaped = self._taken()
            if not escaped:
                raise self.problem("nothing behind the backslash")
            return _one_of(_CLASSES[escaped]) if escaped in _CLASSES else self._literal(escaped)
        if character in _SPECIAL:
            raise self.problem(f"{character!r} has no place here; write \\{character} for the character")
        return self._literal(character)

    def _literal(self, character: str) -> _Part:
        return _Part(lambda _: character, 1)

    def _set(self) -> str:
        members = ""
        while (character := self._taken()) != "]":
            if not character:
                raise self.problem("a [ is not closed")
            if character == "\\":
                escaped = self._taken()
                members += _CLASSES.get(escaped, escaped)
            elif self.next_character() == "-" and self._pattern[self._place + 1 : self._place + 2] not in ("]", ""):
                self._place += 1
                last = self._taken()
                if last < character:
                    raise self.problem(f"the range {character}-{last} runs backwards")
                members += "".join(map(chr, range(ord(character), ord(last) + 1)))
            else:
                members += character
        if not members:
            raise self.problem("the [] is empty")
        return members

    def _repeated(self, part: _Part) -> _Part:
        if self.next_character() == "?":
            self._place += 1
            return _repeat(part, 0, 1)
        if self.next_character() != "{":
            return part
        end = self._pattern.find("}", self._place)
        least, comma, most = self._pattern[self._place + 1 : end if end > 0 else None].partition(",")
        most = most if comma else least
        if end < 0 or not (least.isdecimal() and most.isdecimal()):
            raise self.problem("a { must be followed by 3} or 2,5}, for example")
        if not int(least) <= int(most) <= REPETITIONS_MAX:
            raise self.problem(f"repetitions must not run backwards, nor be more than {REPETITIONS_MAX}")
        self._place = end + 1
        return _repeat(part, int(least), int(most))

    def _taken(self) -> str:
        character = self.next_character()
        self._place += 1
        return character


def _one_of(members: str) -> _Part:
    return _Part(lambda draws: members[draws.below(len(members))], 1)


def _repeat(part: _Part, least: int, most: int) -> _Part:
    write = part.write

    def repeated(draws: Draws) -> str:
        count = least if least == most else least + draws.below(most - least + 1)
        return "".join([write(draws) for _ in range(count)])

    return _Part(repeated, part.length_max * most)
