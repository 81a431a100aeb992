"""The page of speed is of its rows."""

from pathlib import Path

PAGE = Path(__file__).with_name("README.md")


def test_the_page_is_of_its_rows(script):
    speed = script("speed")
    rows = speed.STUDY.rows()
    assert speed.page(rows) == PAGE.read_text("utf-8")
    assert rows.keys() == speed.STUDY.settings.keys()
