"""The distinguished name in a certificate as Java prints it, so that principals are those of Kafka. Pure."""

from typing import Final

from cryptography import x509

EQUALS_ESCAPED: Final = r"\="
"""As Java writes it in a value; RFC 4514 leaves it as it is."""
_PRINTED_BY_JAVA: Final = frozenset({"CN", "L", "ST", "O", "OU", "C", "STREET", "DC", "UID"})


def distinguished_name(name: x509.Name) -> str:
    """Return a name as Java's `X500Principal.getName` prints it, by which access control lists go (RFC 2253)."""
    relative_names = reversed(list(name.rdns))
    return ",".join("+".join(_attribute(attribute) for attribute in relative) for relative in relative_names)


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    kind, _, value = attribute.rfc4514_string().partition("=")
    if kind in _PRINTED_BY_JAVA:
        return f"{kind}={value.replace('=', EQUALS_ESCAPED)}"
    # Java prints the DER of a value whose type RFC 2253 gives no name.
    content = x509.Name([attribute]).public_bytes()
    for _ in range(3):  # a sequence of sets of sequences of a type and its value
        content, _rest = _content(content)
    _type, encoded = _content(content)
    return f"{attribute.oid.dotted_string}=#{encoded.hex()}"


def _content(element: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first DER element, and what follows it."""
    length, begin = element[1], 2
    if length & 0x80:
        begin += length & 0x7F
        length = int.from_bytes(element[2:begin])
    return element[begin : begin + length], element[begin + length :]
