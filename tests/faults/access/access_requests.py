"""What operators ask for about logins and rights, each request repeated until it is carried out."""

import hashlib
import secrets
from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_core.acls import AclBinding
from tests.faults.operator_requests import OperatorRequests
from tests.support.messages.sparse_request import sparse_request

SCRAM_SHA_512 = 2
ITERATIONS = 4096
SALT_BYTES = 16


def add_bindings(requests: OperatorRequests, bindings: Iterable[AclBinding]) -> None:
    """Adds entries to the access control lists."""
    creations = [
        {
            "resource_type": each.kind,
            "resource_name": each.name,
            "resource_pattern_type": each.pattern,
            "principal": each.principal,
            "host": each.host,
            "operation": each.operation,
            "permission_type": each.permission,
        }
        for each in bindings
    ]

    def attempt() -> ErrorCode:
        return _first_error(requests.ask(sparse_request("create_acls", 3, creations=creations)).results)

    requests.until_done(attempt, f"add {len(creations)} access control entries")


def remove_bindings(requests: OperatorRequests, bindings: Iterable[AclBinding]) -> None:
    """Removes entries from the access control lists."""
    filters = [_filter(each) for each in bindings]

    def attempt() -> ErrorCode:
        return _first_error(requests.ask(sparse_request("delete_acls", 3, filters=filters)).filter_results)

    requests.until_done(attempt, f"remove {len(filters)} access control entries")


def knows_binding(requests: OperatorRequests, binding: AclBinding, broker: int) -> bool:
    """Whether a broker goes by an entry.

    Raises:
        ConnectionError: it does not answer.
    """
    answer = requests.ask(sparse_request("describe_acls", 3, **_filter(binding)), broker)
    if answer.error_code is not ErrorCode.none:
        raise ConnectionError(answer.error_code.name)
    return bool(answer.resources)


def set_password(requests: OperatorRequests, user: str, password: str) -> None:
    """Gives a user another password for SCRAM-SHA-512."""
    salt = secrets.token_bytes(SALT_BYTES)
    upsertion = {
        "name": user,
        "mechanism": SCRAM_SHA_512,
        "iterations": ITERATIONS,
        "salt": salt,
        "salted_password": hashlib.pbkdf2_hmac("sha512", password.encode(), salt, ITERATIONS),
    }

    def attempt() -> ErrorCode:
        request = sparse_request("alter_user_scram_credentials", 0, deletions=[], upsertions=[upsertion])
        return _first_error(requests.ask(request).results)

    requests.until_done(attempt, f"another password for {user}")


def _filter(binding: AclBinding) -> dict[str, Any]:
    return {
        "resource_type_filter": binding.kind,
        "resource_name_filter": binding.name,
        "pattern_type_filter": binding.pattern,
        "principal_filter": binding.principal,
        "host_filter": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission,
    }


def _first_error(answers: Iterable[Any]) -> ErrorCode:
    codes: Iterable[ErrorCode] = (each.error_code for each in answers)
    return next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)
