"""DataFrame ⇄ codes. Knows pandas and the schema, not torch."""

from tabsynth.encoding.layout import Block, Layout
from tabsynth.encoding.table import TableEncoder

__all__ = ["Block", "Layout", "TableEncoder"]
