"""Public facts about tables: columns of each kind, schemas, drafts of them."""

from tabsynth.schema.categorical import Categorical
from tabsynth.schema.column import Column, register
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.ordinal import Ordinal

# A new kind is one line here.
register(Categorical)
register(Ordinal)
register(Numeric)

__all__ = ["Categorical", "Column", "Numeric", "Ordinal"]
