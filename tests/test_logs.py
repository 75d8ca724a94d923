"""The log of a server."""

import logging
import sys

from signalbook.logs import TextFormatter


def test_messages_stay_on_one_line_and_are_printable() -> None:
    record = logging.LogRecord("signalbook", logging.INFO, "", 1, "at %s", ("\x1b[2Jx\n2026 INFO forged\u202e",), None)
    assert TextFormatter("%(levelname)s: %(message)s").format(record) == "INFO: at [2Jx 2026 INFO forged"


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        record = logging.LogRecord("signalbook", logging.ERROR, "", 1, "failed", (), sys.exc_info())
    formatted = TextFormatter("%(message)s").format(record)
    assert formatted.startswith("failed\nTraceback")
    assert formatted.endswith("ValueError: [2J")
