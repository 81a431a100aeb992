"""DDI Codebook: XML that statistical archives write, with variables, categories and valid ranges.

Statistics of the rows in it, such as frequencies, minima and maxima, are not read.
"""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from tabsynth._typing import JsonObject
from tabsynth.errors import FileFormatError, one_line
from tabsynth.schema.importers.declaration import Declaration, bound, codes, text_of


def parse(data: bytes, where: str) -> Any:
    """Return the root element. A document type declaration is refused, because it may define entities.

    Raises
    ------
    FileFormatError
    """

    def refuse(*_: object) -> None:
        raise FileFormatError(
            f"{where} has a document type declaration, which may define entities; remove it."
        )

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
        return ElementTree.fromstring(data)
    except (expat.ExpatError, ElementTree.ParseError, ValueError) as error:
        raise FileFormatError(f"{where} is not valid XML: {one_line(error)}.") from None


def _name(element: Any) -> str:
    return str(element.tag).rpartition("}")[2]


def _children(element: Any, name: str) -> list[Any]:
    return [child for child in element if _name(child) == name]


def _text(element: object, name: str) -> str | None:
    texts = _children(element, name)
    return text_of("".join(texts[0].itertext())) if texts else None


def matches(root: object) -> bool:
    """Return whether an XML document is a DDI codebook."""
    return _name(root).lower() == "codebook"


def declarations(root: Any, where: str) -> Iterator[Declaration]:
    """Return what the codebook states of each variable.

    Raises
    ------
    FileFormatError
        For a codebook without variables.
    """
    variables = [element for element in root.iter() if _name(element) == "var"]
    if not variables:
        raise FileFormatError(f"{where}: the codebook describes no variable.")
    for variable in variables:
        name = variable.get("name")
        if not name:
            raise FileFormatError(f"{where}: a variable has no name.")
        yield Declaration(name=name, facts=_facts(variable))


def _facts(variable: Any) -> JsonObject:
    categories = [c for c in _children(variable, "catgry") if _text(c, "catValu") is not None]
    present = [c for c in categories if c.get("missing") != "Y"]
    values = [str(_text(c, "catValu")) for c in present]
    labels = {str(_text(c, "catValu")): _text(c, "labl") for c in present}
    facts: JsonObject = {"description": _text(variable, "labl"), "nulls": True}
    facts["labels"] = {value: label for value, label in labels.items() if label is not None}
    ranges = [r for v in _children(variable, "valrng") for r in _children(v, "range")]
    ends = [bound(r.get(end, "")) for r in ranges for end in ("min", "max")]
    if ends and None not in ends:
        ends += [n for n in (bound(value) for value in values) if n is not None]
        if not values or variable.get("intrvl") == "contin":
            is_whole = all(isinstance(end, int) for end in ends) and _whole(variable)
            return {**facts, "low": min(ends), "high": max(ends)} | (
                {} if is_whole else {"dtype": "float64"}
            )
    if values:
        facts["categories"] = codes(values)
        facts["kind"] = "ordinal" if variable.get("nature") == "ordinal" else "categorical"
    return facts


def _whole(variable: Any) -> bool:
    return str(variable.get("dcml", "0")) == "0"
