"""Public knowledge by name: what names of columns, and sets of values, say by themselves.

Names of columns are public, so what follows from a name alone costs nothing: an age lies between 0 and 120, a month between 1 and
12. So does what follows from released values alone: where there is a "no", a "yes" may be as well. The entries are in
``catalogue.toml`` beside this file, each with its source. An entry may be wrong of a column, so drafts take what it says as a
hint, and noisy counts of the rows decide whether it fits.
"""

import re
import string
import tomllib
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from pathlib import Path

from tabsynth._typing import JsonObject

LETTERS, DIGITS = string.ascii_uppercase, string.digits
CATALOGUE = "catalogue: "  # before the name of an entry, in the sources of a schema
THIS_YEAR, NO_ANSWER = "this year", "no answer"  # words of the file
# Words of a name that say that a column holds something else than the rest of its name, such as an age group.
OTHERWISE = re.compile(
    "groups?|grp|class|cat|category|categories|bands?|bins?|bracket|diff|difference|change|delta|ratio|log|ln|sqrt|squared"
    "|sq|rank|z?score|quantile|quartile|quintile|decile|factor|missing|known|unknown|per|std|sd|var|count"
)


@dataclass(frozen=True, kw_only=True)
class ValueSet:
    """Texts that occur together in a column, such as no and yes.

    Attributes
    ----------
    name, source : str
    texts : tuple of str
    """

    name: str
    source: str
    texts: tuple[str, ...]

    def in_each_case(self) -> Iterator["ValueSet"]:
        """Return the set in lower case, in capitals, and with first capitals."""
        for case in (str.lower, str.upper, str.capitalize, str.title):
            yield ValueSet(name=self.name, source=self.source, texts=tuple(map(case, self.texts)))


@dataclass(frozen=True, kw_only=True)
class Hint:
    """A hint of a column's name at its values, if they are what the name says.

    Attributes
    ----------
    name : str
        Of the entry, such as ``"age"``.
    source : str
        The public source of the facts.
    low, high : float, optional
        The least and the largest number.
    sets : tuple of ValueSet
        The sets of texts of which the values may be.
    code : bool
        Whether digits are a code and no amount, so that its values are texts.
    diagnosis : bool
        Whether its values may be of one of the lists of codes of diagnoses.
    """

    name: str
    source: str
    low: float | None = None
    high: float | None = None
    sets: tuple[ValueSet, ...] = ()
    code: bool = False
    diagnosis: bool = False

    @property
    def limits(self) -> tuple[float, float] | None:
        """``low`` and ``high``, if it has both."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class Catalogue:
    """The entries of the catalogue: hints by name of column, and sets of values.

    Attributes
    ----------
    names : dict from str to list of str
        The names of columns by entry, as ``catalogue.toml`` lists them.
    """

    def __init__(
        self,
        columns: Mapping[str, JsonObject],
        values: Mapping[str, JsonObject],
        codes: Mapping[str, JsonObject],
    ) -> None:
        self._columns, self._values, self._codes = columns, values, codes
        self.names: dict[str, list[str]] = {entry: columns[entry]["names"] for entry in columns}

    @cached_property
    def sets(self) -> tuple[ValueSet, ...]:
        """The sets of texts that any column may have, as they are spelled."""
        return self._sets_of(name for name, facts in self._values.items() if not facts.get("named"))

    def hint_of(self, name: str) -> Hint | None:
        """Return what the name of a column says of its values, or None where the catalogue has no such name."""
        words = words_of(name)
        without_digit = words[:-1] if words and re.fullmatch(r"\d", words[-1]) else words
        entry = self._whole.get("".join(words)) or self._whole.get("".join(without_digit))
        if entry is None and not any(map(OTHERWISE.fullmatch, words)):
            text = " ".join(without_digit)
            entry = next((entry for form, entry in self._forms if form.fullmatch(text)), None)
        return None if entry is None else self.hint(entry)

    def sets_of(self, name: str, nulls: Collection[str]) -> list[ValueSet]:
        """Return the sets of texts that a column of a name may have, of which none means null."""
        hint = self.hint_of(name)
        sets = dict.fromkeys([*(() if hint is None else hint.sets), *self.sets])
        return [each for each in sets if not {*each.texts} & {*nulls}]

    def names_code(self, name: str) -> bool:
        """Return whether the name of a column says that its digits are a code, so that its values are texts."""
        hint = self.hint_of(name)
        return hint is not None and hint.code

    def names_diagnosis(self, name: str) -> bool:
        """Return whether the name of a column says that it may have codes of diagnoses."""
        hint = self.hint_of(name)
        return hint is not None and hint.diagnosis

    def codes_of(self, code_list: str) -> tuple[str, ...]:
        """Return the codes of a list, such as ICD-10, in their order."""
        ranges = (text.partition("-") for text in self._codes[code_list]["ranges"].split())
        return tuple(
            f"{first.rstrip(DIGITS)}{number:0{len(first.lstrip(LETTERS))}}"
            for first, _, last in ranges
            for number in range(
                int(first.lstrip(LETTERS)), int((last or first).lstrip(LETTERS)) + 1
            )
        )

    def hint(self, entry: str) -> Hint:
        """Return what an entry says."""
        facts = {fact: value for fact, value in self._columns[entry].items() if fact != "names"}
        if facts.get("high") == THIS_YEAR:
            facts["high"] = date.today().year
        return Hint(name=entry, sets=self._sets_of(facts.pop("values", ())), **facts)

    @cached_property
    def no_answer(self) -> frozenset[str]:
        """Texts that may stand beside those of any set, such as unknown."""
        return frozenset(text for each in self._sets_of([NO_ANSWER]) for text in each.texts)

    @cached_property
    def _whole(self) -> dict[str, str]:
        """Entries by the names that they list, without separators."""
        return {
            "".join(words_of(name)): entry
            for entry, names in self.names.items()
            for name in names
            if "*" not in name
        }

    @cached_property
    def _forms(self) -> list[tuple[re.Pattern[str], str]]:
        """Patterns of names, and their entries."""
        return [
            (re.compile(name.replace("*", ".+")), entry)
            for entry, names in self.names.items()
            for name in names
            if "*" in name
        ]

    def _sets_of(self, names: Iterable[str]) -> tuple[ValueSet, ...]:
        sets: dict[tuple[str, ...], ValueSet] = {}
        for name in names:
            facts = self._values[name]
            listed = ValueSet(name=name, source=facts["source"], texts=tuple(facts["texts"]))
            for each in [listed] if facts.get("spelled") else listed.in_each_case():
                sets.setdefault(each.texts, each)
        return tuple(sets.values())


@lru_cache(1)
def catalogue() -> Catalogue:
    """Return the catalogue of the package."""
    text = Path(__file__).with_name("catalogue.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    return Catalogue(tables["columns"], tables["values"], tables["codes"])


def words_of(name: str) -> list[str]:
    """Return the words and numbers of a column's name in lower case: ``ageAtDiagnosis``, ``age_at_diagnosis`` and ``AGE AT DIAGNOSIS`` alike."""
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", name[:200]) if not unicodedata.combining(c)
    )
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})", " ", plain)
    return re.findall(r"[^\W\d_]+|\d+", spaced.casefold())
