"""The codebook of released tables: DDI Codebook 2.5 (DDI Alliance, 2012), whose schema fixes the order of the elements.

It states the schema, which is public, and the names of the columns. It holds no statistic of the tables.
"""

import re

from tabsynth.dossier.material import Material
from tabsynth.report.page import render
from tabsynth.schema.column import Column

# Characters that XML 1.0 does not have.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def ddi(material: Material) -> str:
    """Return a DDI codebook of all tables, as XML text."""
    text = render(
        "dossier/codebook.xml",
        answers=material.answers,
        certificate=material.certificate,
        statement=material.statement,
        tables=material.tables,
        measure=measurement,
    )
    return _NOT_XML.sub("\ufffd", text) + "\n"


def measurement(column: Column) -> dict[str, str]:
    """Return the attributes of DDI that say how a column is measured."""
    measured = column.kind == "numeric"
    out = {"intrvl": "contin" if measured else "discrete"}
    if column.categories:
        out["nature"] = "ordinal" if column.ordered else "nominal"
    elif measured:
        out["nature"] = "ratio"
        step = column.to_dict().get("resolution")
        if column.value_type == "int" or (isinstance(step, int | float) and step == int(step)):
            out["dcml"] = "0"
        elif isinstance(step, float):
            out["dcml"] = str(len(f"{step:.10f}".rstrip("0").split(".")[1]))
    return out
