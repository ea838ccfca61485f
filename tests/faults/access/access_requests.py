"""What operators ask for about logins and rights, each request repeated until it is carried out.

A broker that stalls may carry out a request whenever it goes on, when the opposite has been asked for. So each
function tells whether all of its requests were carried out when they were asked for; if not, `LATE_S` after every
broker has answered again nothing of them can come any more.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from ottla_core.acls import AclBinding
from tests.faults.operator_requests import OperatorRequests
from tests.support.messages.sparse_request import sparse_request

SCRAM_SHA_512 = 2
ITERATIONS = 4096
SALT_BYTES = 16
LATE_S = 8.0
"""Longer than a controller's lease and a broker's patience with it."""


def add_bindings(requests: OperatorRequests, bindings: Iterable[AclBinding]) -> bool:
    """Adds entries to the access control lists; whether nothing can come late."""
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

    return _until_done(requests, attempt, f"add {len(creations)} access control entries")


def remove_bindings(requests: OperatorRequests, bindings: Iterable[AclBinding]) -> bool:
    """Removes entries from the access control lists; whether nothing can come late."""
    filters = [_filter(each) for each in bindings]

    def attempt() -> ErrorCode:
        return _first_error(requests.ask(sparse_request("delete_acls", 3, filters=filters)).filter_results)

    return _until_done(requests, attempt, f"remove {len(filters)} access control entries")


def knows_binding(requests: OperatorRequests, binding: AclBinding, broker: int) -> bool:
    """Whether a broker goes by an entry.

    Raises:
        ConnectionError: it does not answer.
    """
    answer = requests.ask(sparse_request("describe_acls", 3, **_filter(binding)), broker)
    if answer.error_code is not ErrorCode.none:
        raise ConnectionError(answer.error_code.name)
    return bool(answer.resources)


def set_password(requests: OperatorRequests, user: str, password: str) -> bool:
    """Gives a user another password for SCRAM-SHA-512; whether nothing can come late."""
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

    return _until_done(requests, attempt, f"another password for {user}")


def _until_done(requests: OperatorRequests, attempt: Callable[[], ErrorCode], what: str) -> bool:
    """Repeats an attempt until it succeeds; whether no failed one leaves open what it has done, or will do."""
    doubtful = 0

    def counted() -> ErrorCode:
        nonlocal doubtful
        unanswered = requests.unanswered
        try:
            error = attempt()
        except ConnectionError:
            doubtful += requests.unanswered - unanswered
            raise
        doubtful += error is not ErrorCode.none
        return error

    requests.until_done(counted, what)
    return not doubtful


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
