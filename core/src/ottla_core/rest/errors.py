"""Why a request is not carried out, in the terms of a REST API. Pure."""


class RequestError(Exception):
    """A request is refused.

    Attributes:
        status: the HTTP status.
        message: what was wrong, for the body.
    """

    status = 500

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class BadRequest(RequestError):
    """The request itself is wrong."""

    status = 400


class NotFound(RequestError):
    """There is nothing of the name."""

    status = 404


class Conflict(RequestError):
    """It cannot be done in this state: it exists already, or the workers are rebalancing."""

    status = 409


class Timeout(RequestError):
    """It was not done in time; it may still be."""

    status = 500


class Elsewhere(Exception):
    """Another worker has to answer this.

    Attributes:
        url: that worker's base URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(url)
