"""The results of attribute reconstruction."""


def test_copies_are_found_and_private_rows_are_not(script):
    """In copied rows it finds at least 1.3 times what the nearest rows find; every private interval holds 0."""
    attack = script("records", "attack.py")
    rows = attack.STUDY.rows()
    assert rows.keys() == attack.SETTINGS.keys()
    for name in attack.KNOWN:
        for method in attack.COPIES:
            assert attack.found(attack.of(rows, name, method), learned=False)[-2] >= 1.3
        for method in attack.PRIVATE:
            for row in attack.of(rows, name, method):
                _, low, high = row["difference"]
                assert low <= 0 <= high
