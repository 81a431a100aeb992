"""DataFrame ⇄ codes. Knows pandas and the schema, not torch."""

from tabsynth.encoding.table import Block, Layout, TableEncoder

__all__ = ["Block", "Layout", "TableEncoder"]
