"""URLs as they are shown: without the name and the password that may stand in them."""

import re

_LOGIN = re.compile(r"(?<=://)[^/?#,\s]*@")


def without_login(text: str) -> str:
    """Return a URL, several with commas between, or a sentence with URLs in it, without what logs in."""
    return _LOGIN.sub("", text)
