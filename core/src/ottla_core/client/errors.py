"""What can go wrong between a client and a broker; every message begins with the broker's address. Pure."""

from ottla_core.errors import OttlaError

NO_ANSWER = "no answer in time"
CLOSED_THERE = "it closed the connection"


class Unreachable(OttlaError):
    """The broker cannot be reached, went away, is too slow, or answers no Kafka."""


class AnotherCluster(Unreachable):
    """A broker of another cluster answers where one of the expected cluster was."""


class AuthenticationFailed(OttlaError):
    """The broker does not accept who we are, or cannot prove who it is."""


class UnsupportedByBroker(OttlaError):
    """The broker does not have an API, or no version of it that we know."""


class Refused(OttlaError):
    """We may not have what we ask for; asking again does not help."""


def reason_of(error: Exception) -> str:
    """Return in words why a connection failed: an error of a socket, of an ended stream or of a name."""
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, EOFError):
        return CLOSED_THERE
    if isinstance(error, UnicodeError):
        return "its name can be no host's"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
