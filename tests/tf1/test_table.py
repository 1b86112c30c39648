"""``docs/tf1.md`` has a row for each statement, and a test with its number for each that is met."""

import re
from pathlib import Path

HERE = Path(__file__).parent
ROW = re.compile(r"^\| (\d+) \| (\w[\w ]*?) \| (.*)\|$", re.M)


def rows():
    return [(int(number), state, remarks.strip()) for number, state, remarks in ROW.findall((HERE.parents[1] / "docs" / "tf1.md").read_text())]


def in_tests():
    """Numbers in the names of test functions: ``test_NNN_...``, ``test_NNN_to_MMM_...``, ``test_NNN_and_MMM_...``."""
    found = set()
    for path in HERE.glob("test_*.py"):
        for first, word, last in re.findall(r"^def test_(\d{3})(?:_(to|and)_(\d{3}))?", path.read_text(), re.M):
            found |= set(range(int(first), int(last) + 1)) if word == "to" else {int(first), int(last or first)}
    return found


def test_every_statement_has_one_row():
    assert [number for number, _, _ in rows()] == list(range(1, 137))


def test_rows_say_what_is_missing():
    for number, state, remarks in rows():
        assert state in ("met", "in part", "other"), number
        assert state == "met" or remarks, number


def test_what_is_met_is_tested():
    assert [number for number, state, _ in rows() if state != "other" and number not in in_tests()] == []
