"""The results of attribute reconstruction."""


def test_copies_are_found_and_private_rows_are_not(script):
    """It finds more than the best k in all copied rows, and 1.3 times the mean of k; every private interval holds 0."""
    attack = script("records", "attack.py")
    rows = attack.STUDY.rows()
    assert rows.keys() == attack.SETTINGS.keys()
    for name in attack.KNOWN:
        for method in attack.COPIES:
            mean, best = attack.found(attack.of(rows, name, method), learned=False)[-2:]
            assert mean >= 1.3 and best > 1.0
        for method in attack.PRIVATE:
            for row in attack.of(rows, name, method):
                _, low, high = row["difference"]
                assert low <= 0 <= high
