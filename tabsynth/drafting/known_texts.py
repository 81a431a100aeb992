"""Texts of the catalogue in a column: asked for one by one without a threshold, because they are known without its rows."""

from collections.abc import Collection
from functools import cached_property

import numpy as np
import pandas as pd

from tabsynth.drafting.catalogue import ValueSet, catalogue
from tabsynth.privacy.noise.counts import CombinedSums

FAR = 5.5  # standard deviations of its noise: a sum above is taken to be of rows, of the many texts that are asked for
TOGETHER = 3.0  # the same of each text of a set whose sum is far above its noise
FEW = 0.05  # of the rows: so few may have the one text of a set that is missing, for it to stay out
LIKELY = 2.0  # the same of a text where all that was released is of one set


class KnownTexts:
    """The noisy sums of the texts of the catalogue in a column, over all rounds.

    A text is released where its sum is far above its noise, and so is a set where that of all its texts is and each is clear.
    At the end the released texts may show of which set all are: then its likely texts are added, and so is one that
    alone is missing where more than few rows may have it.

    Parameters
    ----------
    column : str
        Its name may ask for further sets.
    nulls : collection of str
        Texts that mean null, which are not asked for.

    Attributes
    ----------
    texts : list of str
        Those of all sets.
    """

    def __init__(self, column: str, nulls: Collection[str]) -> None:
        self._sets = catalogue().sets_of(column, nulls)
        self.texts = [*dict.fromkeys(text for value_set in self._sets for text in value_set.texts)]
        self._sums = CombinedSums(len(self.texts))

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.texts)}

    @property
    def _scores(self) -> np.ndarray:
        """The sums of all rounds, in standard deviations of their noise."""
        return self._sums.estimates * np.sqrt(self._sums.weighted[1])

    def places(self, values: pd.Series) -> np.ndarray:
        """Return the place of each value among the texts, shape (m,); -1 for others."""
        return values.map(self._places).fillna(-1).to_numpy(dtype=np.int64)

    def learn(self, sums: np.ndarray, std: float, released: Collection[str]) -> list[str]:
        """Return texts that are released by noisy sums of one round, of rows whose text is not among those ``released`` before."""
        is_asked = np.array([text not in released for text in self.texts])
        self._sums.add(sums[is_asked], std, is_asked)
        scores = self._scores
        clear = is_asked & (scores > FAR)
        for value_set in self._sets:
            places = [self._places[text] for text in value_set.texts]
            together = scores[places].sum() / np.sqrt(len(places))
            if together > FAR and scores[places].min() > TOGETHER:
                clear[places] = is_asked[places]
        return [self.texts[i] for i in sorted(np.flatnonzero(clear), key=lambda i: -scores[i])]

    def completion(self, released: Collection[str]) -> list[str]:
        """Return the texts that complete those that are released, if all of these are of one set."""
        value_set = self._set_of(released)
        if value_set is None:
            return []
        scores = self._scores
        missing = [text for text in value_set.texts if text not in released]
        likely = [text for text in missing if scores[self._places[text]] > LIKELY]
        return missing if len(missing) == 1 and self._may_be(missing[0], value_set) else likely

    def _may_be(self, text: str, value_set: ValueSet) -> bool:
        """Return whether more than few of the rows with texts of a set may have this one."""
        estimates, place = self._sums.estimates, self._places[text]
        upper = estimates[place] + LIKELY * self._sums.deviations[place]
        rows = sum(float(estimates[self._places[other]]) for other in value_set.texts)
        return bool(upper > FEW * rows)

    def _set_of(self, released: Collection[str]) -> ValueSet | None:
        """Return the set with all released texts, but those beside any set, whose texts are likeliest together."""
        answers = {*released} - catalogue().no_answer
        scores = self._scores - LIKELY
        holding = [each for each in self._sets if {*each.texts}.issuperset(answers)]
        sums = [scores[[self._places[text] for text in each.texts]].sum() for each in holding]
        return holding[int(np.argmax(sums))] if holding and answers else None

    def name_of(self, released: Collection[str]) -> str | None:
        """Return the name of the set that all released texts are from, but those beside any set; None if there is none."""
        value_set = self._set_of(released)
        return None if value_set is None else value_set.name
