"""A growing set of line numbers, written compactly: ``3-17, 25``. Pure."""


class NumberRanges:
    """Numbers added in any order; neighbours in order of arrival are joined, so long runs cost little memory."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, number: int) -> None:
        """Add one number."""
        if self._ranges and self._ranges[-1][1] + 1 == number:
            self._ranges[-1] = (self._ranges[-1][0], number)
        else:
            self._ranges.append((number, number))

    def __str__(self) -> str:
        """Return the numbers in order, neighbours as a range."""
        joined: list[tuple[int, int]] = []
        for first, last in sorted(self._ranges):
            if joined and first <= joined[-1][1] + 1:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
            else:
                joined.append((first, last))
        return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in joined)
