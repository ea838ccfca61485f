"""Which passwords a user may be given. Pure."""

from typing import Final

from ottla_operations.errors import OperationError

PASSWORD_BYTES_MAX: Final = 1024


def checked_password(password: str) -> str:
    """Return a password.

    Raises:
        OperationError: it is empty, or too long.
    """
    if not password:
        raise OperationError("the password is empty; nothing was changed")
    if len(password.encode(errors="surrogatepass")) > PASSWORD_BYTES_MAX:
        raise OperationError(f"the password has more than {PASSWORD_BYTES_MAX} bytes; nothing was changed")
    return password
