"""Who makes a request.

Source: Kafka's KafkaPrincipal (types, the anonymous user, and the text TYPE:NAME in settings and tools).
"""

from dataclasses import dataclass
from typing import Final

USER: Final = "User"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request.

    Attributes:
        kind: `User`, or another kind that a builder of principals knows.
        name: of the user.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""A client on a listener where nobody has to say who they are."""
