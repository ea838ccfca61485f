"""A server-sent event as it goes to a browser. Pure.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

import re
from typing import Final

LINE_END: Final = re.compile(r"\r\n|\r|\n")
STILL_HERE: Final = b": still here\n\n"
"""A comment, by which a browser that has gone is noticed."""


def server_sent_event(name: str, data: str, id_: str = "") -> bytes:
    """Return an event; whatever is in the data stays data.

    Args:
        name: of the event.
        data: of several lines, if it has them; they arrive with a line feed between.
        id_: what a browser tells when it connects again.
    """
    lines = [f"event: {name}", *(f"data: {line}" for line in LINE_END.split(data))]
    if id_:
        lines.append(f"id: {id_}")
    return ("\n".join(lines) + "\n\n").encode(errors="backslashreplace")
