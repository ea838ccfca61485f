"""The date by the machine's clock: the one place of these plugins that asks for it."""

import datetime as dt


class SystemCalendar:
    """A `Calendar`."""

    def this_year(self) -> int:
        """Return the year, in UTC."""
        return dt.datetime.now(dt.UTC).year
