"""Public lists of codes of diagnoses, ICD-9 and ICD-10, which columns of some names may have.

Noisy counts of the forms of values decide which list a column has. Then its codes are known without its rows, however rare.
"""

import re
from dataclasses import dataclass

import numpy as np

from tabsynth.drafting.catalogue import CATALOGUE, catalogue
from tabsynth.drafting.categories import other_texts
from tabsynth.drafting.formats import Distinct
from tabsynth.drafting.released_columns import Question, TextDraft
from tabsynth.schema.hierarchical import Hierarchical

ICD_10, ICD_9 = "ICD-10", "ICD-9"
LEVELS = (1, 3)  # characters of a chapter and a category
# Forms of values. A code with V is of ICD-9, where it is common, and so is E with 8 or 9, for codes without a dot.
FORMS = {
    ICD_10: re.compile(r"(?!V|E[89]\d\d)[A-Z]\d[0-9A-Z](\.?[0-9A-Z]{1,4})?"),
    ICD_9: re.compile(r"([1-9]\d\d|V\d\d|E[89]\d\d)(\.\d{0,2})?"),
    "zeros": re.compile(r"0\d\d(\.\d{0,2})?"),
    "short": re.compile(r"[1-9]\d?(\.\d{0,2})?"),
}
FORMS_OF_CODES = len(FORMS) + 1  # with all other values
MOST, HALF = 0.8, 0.5  # of the rows: codes of a list, and those of them that no number below 100 is


@dataclass(frozen=True)
class CodeList:
    """A public list of codes.

    Attributes
    ----------
    name : str
    codes : tuple of str
    """

    name: str
    codes: tuple[str, ...]


def forms_of(column: Distinct) -> np.ndarray:
    """Return the form of each distinct value and of null, shape (m + 1,): its place in :data:`FORMS`, or the number of forms for others."""
    patterns = list(FORMS.values())
    places = [
        next((n for n, form in enumerate(patterns) if form.fullmatch(str(value).rstrip())), -1)
        for value in column.values
    ]
    return np.array([*places, -1]) % FORMS_OF_CODES


def list_of(counts: np.ndarray, rows: float, clear: float) -> CodeList | None:
    """Return the list whose codes most rows have; None if of no list.

    Parameters
    ----------
    counts : float array, shape (forms + 1,)
        Noisy numbers of rows by form.
    rows : float
        The noisy number of rows with a value.
    clear : float
        Above it a number is taken to be of rows.
    """
    of_icd_10, of_icd_9, zeros, short = counts[:-1].tolist()
    if of_icd_10 > max(MOST * rows, clear):
        return CodeList(ICD_10, catalogue().codes_of(ICD_10))
    if of_icd_9 <= max(HALF * rows, clear) or of_icd_9 + zeros + short <= MOST * rows:
        return None
    codes = catalogue().codes_of(ICD_9)
    if short > max(zeros, clear):
        codes = tuple(code.lstrip("0") for code in codes)
    return CodeList(ICD_9, codes)


@dataclass(eq=False, kw_only=True)
class CodesDraft(TextDraft):
    """The draft of a column with codes of a public list. Longer codes that enough rows have are added; others become those of the list."""

    code_list: CodeList

    @property
    def public_texts(self) -> frozenset[str]:
        """See :attr:`TextDraft.public_texts`."""
        return frozenset(self.code_list.codes)

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """See :meth:`ColumnDraft.questions`: all of a text but those of texts of the catalogue."""
        return super().questions(column, number)[1:]

    def end_rounds(self) -> None:
        """See :meth:`ColumnDraft.end_rounds`."""

    def rest(self, column: Distinct) -> Question:
        """See :meth:`ColumnDraft.rest`."""
        listed = self.column()
        is_other = ~listed.convert(column.values.map(str)).isin(listed.codes).to_numpy()
        is_other = np.append(is_other, False) & ~self._missing(column.values)
        return Question(self.name, np.where(is_other, 0, -1), 1, about="rest")

    def column(self) -> Hierarchical:
        """See :meth:`ColumnDraft.column`."""
        self.source("codes", CATALOGUE + self.code_list.name)
        other = next(text for text in other_texts() if text not in self.null_values)
        public = [code for code in self.code_list.codes if code not in self.null_values]
        codes = (*public, *sorted({*self.texts} - {other}), other)
        return Hierarchical(**self.facts, codes=codes, levels=LEVELS, shorten=True, other=other)
