"""Public facts about tables: columns of each kind, schemas, drafts of them."""

from tabsynth.design import Design
from tabsynth.schema.categorical import Categorical, Ordinal
from tabsynth.schema.column import Column, register
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.linked import LinkedSchema, TableKeys
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema
from tabsynth.schema.temporal import Date, Datetime, Duration, Period, Time
from tabsynth.schema.unlearned import Identifier, Text

# A new kind is one line here.
register(Text)
register(Identifier)
register(Categorical)
register(Ordinal)
register(Numeric)
register(Period)
register(Duration)
register(Time)
register(Datetime)
register(Date)
register(Hierarchical)

__all__ = [
    "Categorical",
    "Column",
    "Date",
    "Datetime",
    "Design",
    "Duration",
    "Hierarchical",
    "Identifier",
    "LinkedSchema",
    "Numeric",
    "Ordinal",
    "Period",
    "Schema",
    "TableKeys",
    "Text",
    "Time",
]
