"""The page of the results."""

from typing import Any


def page(results: dict[str, Any]) -> str:
    """README.md."""
    return ""
