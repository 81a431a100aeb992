"""One fit of a variant of MargNet in a process of its own: MargNet with one design choice taken out.

    python ours.py TABLE EPSILON SEED VARIANT LIMIT OUT

Writes the synthetic rows as value numbers; LIMIT is in CPU seconds.
"""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tabsynth import MargNet
from tabsynth.synthesizers.margnet import measurement as measuring
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.mixture import Mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmark"))
from fit import fitted
from limits import limit_cpu
from tables import TABLES


def equal_shares(cells: Sequence[int], *_: Any) -> list[float]:
    return [1 / len(cells)] * len(cells)


def no_groups(column: Any, shares: np.ndarray, *_: float) -> np.ndarray:
    return np.arange(len(shares))


def no_triples(*_: Any) -> list:
    return []


def no_share(*_: Any) -> float:
    return 0.0


def all_pairs(pairs: Sequence, *_: Any) -> list:
    return list(pairs)


ROUNDED = Mixture.sample


def unrounded(self: Mixture, rows: int, rng: Any, **more: Any) -> np.ndarray:
    return ROUNDED(self, rows, rng, **{**more, "rounded": False})


@dataclass(frozen=True)
class Variant:
    """One design choice taken out: by configuration, or in the code.

    ``replaced`` holds (object, attribute, value). Wishes are more arguments of MargNet.
    """

    title: str
    config: dict[str, Any] = field(default_factory=dict)
    wishes: dict[str, Any] = field(default_factory=dict)
    replaced: tuple[tuple[Any, str, Callable], ...] = ()


VARIANTS = {
    "equal-shares": Variant(
        "the budget in equal shares, not ∝ cells^(2/3)",
        replaced=((measuring, "shares_by_cells", equal_shares),),
    ),
    "no-bumps": Variant("a free code a value, no bumps in ordered columns", {"bumps": ()}),
    "no-groups": Variant(
        "rare values counted by themselves", replaced=((measuring, "groups_of", no_groups),)
    ),
    "no-triples": Variant("no triples", replaced=((measuring, "clear_triples", no_triples),)),
    "no-stop": Variant("all steps, as if there were no noise", {"stop": 1e9, "patience": 100_000}),
    "at-noise": Variant("stopped at the noise level, not past it", {"onward": 0.0}),
    "no-entropy": Variant("no weight on entropy", {"entropy": 0.0}),
    "no-smoothing": Variant("counts of pairs as they are, not smoothed", {"smoothing": 0.0}),
    "few-rows": Variant("a mixture of 200 rows", {"components": 200}),
    "iid": Variant(
        "rows drawn independently, not rounded to the expected counts",
        replaced=((Mixture, "sample", unrounded),),
    ),
    "once": Variant(
        "one-way counts once, however high their noise",
        replaced=((measuring, "share_of_columns", no_share),),
    ),
    "scored": Variant("a part of the budget for scores of pairs", {"max_unscored": 0}),
    "unscored": Variant(
        "all pairs counted, none scored",
        {"max_unscored": 10_000},
        replaced=((measuring, "worth_counting", all_pairs),),
    ),
}
WISHES = {
    "default": Variant("as it is"),
    "workload": Variant("workload=[(PUMA, AGEP)]", wishes={"workload": [("PUMA", "AGEP")]}),
    "target": Variant("target=PINCP_DECILE", wishes={"target": "PINCP_DECILE"}),
}


def main(table: str, epsilon: str, seed: str, variant: str, limit: str, out: str) -> dict[str, Any]:
    limit_cpu(int(limit))
    schema, train, _ = TABLES[table].split()
    chosen = (VARIANTS | WISHES)[variant]
    with ExitStack() as stack:
        for place, name, value in chosen.replaced:
            stack.enter_context(patch.object(place, name, value))
        model = MargNet(
            schema,
            epsilon=float(epsilon),
            random_state=int(seed),
            config=MargNetConfig(**chosen.config),
            **chosen.wishes,
        )
        found = fitted(model, train, out)
    counted = [m["details"] for m in model.certificate()["mechanisms"]][-1]
    return found | {"pairs": counted.get("pairs", 0), "triples": counted.get("triples", 0)}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
