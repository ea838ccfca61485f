"""A change of rights is sure where no request for it can be carried out later than it was asked for."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.faults.access.access_requests import add_bindings, knows_binding, remove_bindings, set_password
from tests.faults.access.secured_clients import OUTSIDERS_BINDINGS
from tests.faults.operator_requests import OperatorRequests, OutOfPatience

UNREACHABLE, UNANSWERED = "unreachable", "unanswered"
DONE, SLOW = ErrorCode.none, ErrorCode.request_timed_out


class Scripted(OperatorRequests):
    """Brokers whose answers are known beforehand."""

    def __init__(self, *answers: ErrorCode | str) -> None:
        super().__init__({1: ("nowhere", 1)}, seed="", gave_up=threading.Event())
        self.asked: list[Any] = []
        self._answers = list(answers)

    def ask(self, request: Any, broker: int | None = None) -> Any:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, str):
            self.unanswered += answer == UNANSWERED
            raise ConnectionError(answer)
        results = (SimpleNamespace(error_code=answer),)
        return SimpleNamespace(results=results, filter_results=results, error_code=answer, resources=results)


@pytest.mark.parametrize(
    ("answers", "is_sure"),
    [([DONE], True), ([UNREACHABLE, DONE], True), ([UNANSWERED, DONE], False), ([SLOW, DONE], False)],
)
@pytest.mark.parametrize("change", [add_bindings, remove_bindings])
def test_a_change_is_sure_unless_a_request_for_it_may_come_late(
    change: Any, answers: list[Any], is_sure: bool
) -> None:
    requests = Scripted(*answers)
    assert change(requests, OUTSIDERS_BINDINGS) is is_sure
    assert len(requests.asked) == len(answers)


def test_a_password_is_sent_salted_and_hashed_and_alike_each_time() -> None:
    requests = Scripted(UNANSWERED, DONE)
    assert not set_password(requests, "ann", "hunter2")
    first, second = (request.upsertions[0] for request in requests.asked)
    assert first == second
    assert b"hunter2" not in first.salted_password


def test_an_error_that_does_not_pass_is_a_problem() -> None:
    with pytest.raises(AssertionError, match="security_disabled"):
        add_bindings(Scripted(ErrorCode.security_disabled), OUTSIDERS_BINDINGS)


def test_nobody_is_asked_any_more_once_all_is_given_up() -> None:
    requests = Scripted()
    requests._gave_up.set()
    with pytest.raises(OutOfPatience):
        add_bindings(requests, OUTSIDERS_BINDINGS)


def test_a_broker_knows_an_entry_if_it_shows_one_and_says_so_without_an_error() -> None:
    assert knows_binding(Scripted(DONE), OUTSIDERS_BINDINGS[0], 1)
    with pytest.raises(ConnectionError):
        knows_binding(Scripted(ErrorCode.unknown_server_error), OUTSIDERS_BINDINGS[0], 1)
