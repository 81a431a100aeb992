"""What every plan starts from."""

from tabsynth._validate import between, integer

MOST_ROWS, MOST_EPSILON = 10**12, 10_000.0


def check_budget(rows: int, epsilon: float, delta: float) -> None:
    """Refuse a number of rows or a budget that no plan can be made for, by name."""
    between("rows", integer("rows", rows), 1, MOST_ROWS)
    between("epsilon", epsilon, 0, MOST_EPSILON, low_open=True)
    between("delta", delta, 0, 1, low_open=True, high_open=True)
