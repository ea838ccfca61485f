"""Events as they go to browsers."""

from ottla_console.views.server_sent_event import server_sent_event


def test_an_event_has_a_name_lines_of_data_and_an_id() -> None:
    assert server_sent_event("rows", "one\ntwo", "0:1") == b"event: rows\ndata: one\ndata: two\nid: 0:1\n\n"
    assert server_sent_event("end", "") == b"event: end\ndata: \n\n"


def test_no_data_becomes_an_event_of_its_own() -> None:
    for line_end in ("\r", "\n", "\r\n"):
        sent = server_sent_event("rows", f"a{line_end}{line_end}event: end{line_end}id: 9")
        assert sent == b"event: rows\ndata: a\ndata: \ndata: event: end\ndata: id: 9\n\n"
    assert server_sent_event("rows", "\ud800") == b"event: rows\ndata: \\ud800\n\n"
