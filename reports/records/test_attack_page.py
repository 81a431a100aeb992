"""The page on attribute reconstruction is of its results."""

from pathlib import Path

PAGE = Path(__file__).with_name("attack.md")


def test_the_page_is_of_its_results(script):
    """And in copied rows it finds at least 1.3 times what the nearest rows find; every private interval holds 0."""
    attack = script("records", "attack.py")
    rows = attack.STUDY.rows()
    assert attack.page(rows) == PAGE.read_text("utf-8") and rows.keys() == attack.SETTINGS.keys()
    for name in attack.KNOWN:
        for method in attack.COPIES:
            assert attack.found(attack.of(rows, name, method), learned=False)[-2] >= 1.3
        for method in attack.PRIVATE:
            for row in attack.of(rows, name, method):
                _, low, high = row["difference"]
                assert low <= 0 <= high
