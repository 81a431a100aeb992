"""The concepts of an OMOP vocabulary: a CONCEPT file, and CONCEPT_ANCESTOR where it is there."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.tables.files import TEXT, find_file, read_any
from tabsynth.tables.frames import table_from_arrow

CONCEPT, ANCESTOR = "concept", "concept_ancestor"
NEEDED = {
    CONCEPT: (
        "concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id", "standard_concept", "concept_code",
        "invalid_reason",
    ),
    ANCESTOR: ("ancestor_concept_id", "descendant_concept_id", "min_levels_of_separation"),
}  # fmt: skip
PREFIX = 3  # characters of a code, where these begin with a letter, as those of ICD-10 and ATC do


class Vocabulary:
    """The standard concepts of a vocabulary, by domain.

    Parameters
    ----------
    concepts, ancestors : DataFrame
        The tables CONCEPT and CONCEPT_ANCESTOR.
    where : str
        What messages name.

    Raises
    ------
    InputError
        If a table lacks a column, or there is no concept.
    """

    def __init__(self, concepts: pd.DataFrame, ancestors: pd.DataFrame | None, where: str) -> None:
        self.where = where
        concepts = _lower(concepts, CONCEPT, where)
        concepts["concept_id"] = pd.to_numeric(concepts["concept_id"], errors="coerce")
        valid = concepts["concept_id"].notna() & (
            concepts["invalid_reason"].isna() | (concepts["invalid_reason"] == "")
        )
        self._concepts = concepts[valid].astype({"concept_id": "int64"})
        links = None if ancestors is None else _lower(ancestors, ANCESTOR, where)
        if links is not None:
            links = links.apply(pd.to_numeric, errors="coerce").dropna().astype("int64")
        self._ancestors = links
        self._standard = self._concepts[self._concepts["standard_concept"] == "S"]
        if not len(self._standard):
            raise InputError(
                f"{where} has no standard concept (standard_concept 'S'), so no value of a column is known; give the CONCEPT"
                " file of an Athena download, or leave it out: concepts are then selected privately."
            )

    @classmethod
    def read(cls, folder: str | Path) -> "Vocabulary | None":
        """Read the vocabulary of a folder; None where it has no CONCEPT file."""
        place = Path(folder)
        path = find_file(place, CONCEPT) if place.is_dir() else None
        if path is None:
            return None
        above = find_file(place, ANCESTOR)
        ancestors = None if above is None else read_concepts(above, ANCESTOR)
        return cls(read_concepts(path, CONCEPT), ancestors, str(path))

    def codes(self, domain: str, column: str) -> tuple[int, ...]:
        """Return the concepts of a domain, or of all with an empty name, and 0, which no concept matches.

        Raises
        ------
        InputError
            If the vocabulary has none.
        """
        of = self._standard if not domain else self._standard[self._standard["domain_id"] == domain]
        if not len(of):
            raise InputError(
                f"{self.where} has no standard concept of domain {quote(domain)}, which column {column} takes; give a"
                " vocabulary with it, or leave the file out: concepts are then selected privately."
            )
        return 0, *sorted({*of["concept_id"].tolist()} - {0})

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The names of concepts."""
        return self._concepts.set_index("concept_id")["concept_name"].astype(str).to_dict()

    def parents(self, codes: tuple[int, ...]) -> dict[str, str | None]:
        """Return a tree over codes: an ancestor of each by CONCEPT_ANCESTOR, else its vocabulary, class and prefix."""
        of = self._concepts.drop_duplicates("concept_id").set_index("concept_id").reindex(codes)
        text = of["concept_code"].astype(str)
        prefix = (" " + text.str[:PREFIX]).where(text.str[:1].str.isalpha(), "")
        group = of["vocabulary_id"].astype(str) + " " + of["concept_class_id"].astype(str) + prefix
        tops = self._tops(codes)
        above = {str(c): str(tops.get(c, g)) for c, g in zip(codes, group, strict=True)}
        nodes = dict.fromkeys(above.values())
        return {**nodes, **{code: node for code, node in above.items() if code not in nodes}}

    def _tops(self, codes: tuple[int, ...]) -> dict[int, int]:
        """Return the ancestor of each code whose group is nearest to a 25th of all codes; of several the smallest id."""
        if self._ancestors is None:
            return {}
        links = self._ancestors
        links = links[
            (links["min_levels_of_separation"] > 0) & links["descendant_concept_id"].isin(codes)
        ]
        below = links.groupby("ancestor_concept_id")["descendant_concept_id"].transform("size")
        links = links.assign(apart=(below - len(codes) / 25).abs())
        links = links.sort_values(["apart", "ancestor_concept_id"])
        best = links.drop_duplicates("descendant_concept_id")
        return best.set_index("descendant_concept_id")["ancestor_concept_id"].to_dict()


def read_concepts(path: Path, name: str) -> pd.DataFrame:
    """Return the needed columns of a file of the vocabulary; with tabs and a header without quotes, as of Athena, quotes are characters.

    Raises
    ------
    InputError
    """
    if path.is_dir() or path.suffix.lower() not in TEXT:
        return read_any(path)
    import pyarrow as pa
    from pyarrow import csv

    try:
        with path.open("rb") as file:
            header = file.readline(2**16).decode("utf-8-sig", "replace").rstrip().split("\t")
        if len(header) == 1 or any('"' in column for column in header):
            return read_any(path)
        options = csv.ConvertOptions(
            include_columns=[column for column in header if column.lower() in NEEDED[name]],
            column_types=dict.fromkeys(header, pa.string() if name == CONCEPT else pa.int64()),
            null_values=[""],
            strings_can_be_null=True,
        )
        tabs = csv.ParseOptions(delimiter="\t", quote_char=False)
        table = csv.read_csv(path, parse_options=tabs, convert_options=options)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"Cannot read {path}: {one_line(error)}; give the file of an Athena download."
        ) from None
    return table_from_arrow(table)


def _lower(table: pd.DataFrame, name: str, where: str) -> pd.DataFrame:
    """Return the needed columns of a table of the vocabulary, in lower case."""
    table = table.rename(columns=lambda column: str(column).lower())
    for column in NEEDED[name]:
        if column not in table.columns:
            raise InputError(
                f"{where}: table {name.upper()} lacks column {quote(column)}; give the file of an Athena download."
            )
    return table[list(NEEDED[name])].copy()
