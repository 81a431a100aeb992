"""Schemas and rules from rows: released with noise, or copied from the rows for a person to review."""

from typing import TYPE_CHECKING

from tabsynth._lazy import exports

if TYPE_CHECKING:
    from tabsynth.drafting.drafts import draft_schema, review
    from tabsynth.drafting.private_schema import draft_private
    from tabsynth.drafting.suggestions import suggest_constraints
    from tabsynth.drafting.summary import summarize

__all__ = ["draft_private", "draft_schema", "review", "suggest_constraints", "summarize"]

__getattr__, __dir__ = exports(
    "tabsynth.drafting",
    {
        "draft_private": "private_schema",
        "draft_schema": "drafts",
        "review": "drafts",
        "suggest_constraints": "suggestions",
        "summarize": "summary",
    },
)
