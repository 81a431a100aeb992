"""One fit of a variant of MargNet in a process of its own: MargNet with one design choice taken out.

    python ours.py TABLE EPSILON SEED VARIANT LIMIT OUT

Writes the synthetic rows as category codes; LIMIT is in CPU seconds.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from tabsynth import MargNet, Schema
from tabsynth.privacy.noise.counts import NoisyCounts
from tabsynth.schema import column as columns
from tabsynth.schema import hierarchical
from tabsynth.schema.column import merge_rare
from tabsynth.synthesizers.margnet import measurement as measuring
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import MargNetFit
from tabsynth.synthesizers.margnet.prior import PriorCounts
from tabsynth.synthesizers.mixture import SWEEPS, Mixture, _Draw, _Triples

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmark"))
from fit import fitted
from limits import limit_cpu
from tables import TABLES, data_file, excerpt, half_of_adult, parsed


def equal_shares(cells: Sequence[int], *_: Any) -> list[float]:
    return [1 / len(cells)] * len(cells)


def no_groups(column: Any, shares: np.ndarray, *_: float) -> np.ndarray:
    return np.arange(len(shares))


def no_triples(*_: Any) -> list:
    return []


def no_share(*_: Any) -> float:
    return 0.0


def one_group(shares: np.ndarray, least: float, merged: float) -> np.ndarray:
    """As ``merge_rare``, but all rare values are one group."""
    groups = merge_rare(shares, least, merged)
    often = np.bincount(groups)[groups] == 1
    rare = ~often | (shares < least)
    out = np.full(len(shares), (~rare).sum())
    out[~rare] = np.arange((~rare).sum())
    return out if rare.any() else groups


def never(*_: Any) -> bool:
    return False


def always(*_: Any) -> bool:
    return True


def all_pairs(pairs: Sequence, *_: Any) -> list:
    return list(pairs)


ROUNDED = Mixture.sample


def unrounded(self: Mixture, rows: int, rng: Any, **more: Any) -> np.ndarray:
    return ROUNDED(self, rows, rng, **{**more, "rounded": False})


def pairs_alone(self: Mixture, rows: int) -> tuple[int, bool]:
    return SWEEPS, False


CONTRASTS = NoisyCounts.contrasts


def with_own_noise(self: NoisyCounts, account: Any, sets: Any, signs: Any, bits: Any) -> np.ndarray:
    """Sums of signs with noise from another generator: the other noise of a seed is then that of a fit without them."""
    return CONTRASTS(self, account, sets, signs, np.random.default_rng([7, int(sys.argv[3])]))


ABLATED = (("census", 1.0), ("census", 8.0), ("hospital", 1.0))
AT_ONE = (("census", 1.0), ("hospital", 1.0))
AT_EIGHT = (("census", 8.0),)
CLEAR_CELLS = (("census-24", 8.0),)
WIDE_CELLS = (("census-24", 0.5), ("hospital", 1.0))
FAST = (("census", 1.0), ("census", 8.0), ("adult", 1.0), ("census-24", 1.0))


@dataclass(frozen=True)
class Variant:
    """One design choice taken out: by configuration, or in the code.

    ``replaced`` holds (object, attribute, value), ``hints`` more arguments of MargNet, ``impossible`` combinations
    of values that the schema declares impossible; ``control`` is the variant that it is compared with, "" for
    MargNet with its defaults, and ``cells`` the tables and epsilons where it is fitted. ``public`` makes a public
    table of the schema.
    """

    title: str
    config: dict[str, Any] = field(default_factory=dict)
    hints: dict[str, Any] = field(default_factory=dict)
    replaced: tuple[tuple[Any, str, Callable], ...] = ()
    impossible: tuple[dict[str, Any], ...] = ()
    control: str = ""
    cells: tuple[tuple[str, float], ...] = ABLATED
    public: Callable[[Schema], pd.DataFrame] | None = None


VARIANTS = {
    "equal-shares": Variant(
        "the budget in equal shares, not ∝ cells^(2/3)",
        replaced=((measuring, "shares_by_cells", equal_shares),),
    ),
    "no-groups": Variant(
        "rare values counted by themselves", replaced=((measuring, "groups_of", no_groups),)
    ),
    "no-triples": Variant("no triples", replaced=((measuring, "clear_triples", no_triples),)),
    "no-stop": Variant(
        "all steps, as if there were no noise", replaced=((MargNetFit, "_at_noise", never),)
    ),
    "at-noise": Variant("stopped at the noise level, not past it", {"continuation": 0.0}),
    "no-entropy": Variant("no weight on entropy", {"entropy": 0.0}),
    "no-smoothing": Variant("counts of pairs as they are, not smoothed", {"smoothing": 0.0}),
    "few-rows": Variant("a mixture of 200 rows", {"components": 200}),
    "iid": Variant(
        "rows drawn independently, not rounded to the expected counts",
        replaced=((Mixture, "sample", unrounded),),
    ),
    "rounded-by-pairs": Variant(
        "rows rounded to expected counts of pairs alone",
        replaced=((Mixture, "_sweeps", pairs_alone),),
        cells=ABLATED[:2],
    ),
    "once": Variant(
        "one-way counts once, however high their noise",
        replaced=((measuring, "share_of_columns", no_share),),
    ),
    # Whether pairs are scored follows from the number of columns.
    "scored": Variant(
        "a part of the budget for scores of pairs", {"max_unscored": 0}, cells=ABLATED[:2]
    ),
    "unscored": Variant(
        "all pairs counted, none scored",
        {"max_unscored": 10_000},
        replaced=((measuring, "worth_counting", all_pairs),),
        cells=ABLATED[2:],
    ),
}
PLAIN, ZEROS = "plain", "zeros"
AGED = "AGEP"
WITH_ZEROS = "control of the next: rows declared impossible"
# Facts of the census table's data dictionary.
IMPOSSIBLE = (
    {AGED: {"low": 15, "high": 99}, "MSP": [None]},
    {AGED: {"low": 0, "high": 14}, "MSP": [1, 2, 3, 4, 5, 6]},
    {AGED: {"low": 0, "high": 14}, "PINCP_DECILE": list(range(10))},
    {AGED: {"low": 0, "high": 15}, "INDP_CAT": list(range(19))},
    {AGED: {"low": 3, "high": 99}, "EDU": [None]},
    {AGED: {"low": 0, "high": 2}, "EDU": list(range(1, 13))},
)


def setting(title: str, *, cells: tuple[tuple[str, float], ...] = AT_ONE, **config: Any) -> Variant:
    """One setting changed."""
    return Variant(title, config, control=PLAIN, cells=cells)


def of_zeros(title: str, **config: Any) -> Variant:
    """The same with rows that are declared impossible."""
    control = "" if title == WITH_ZEROS else ZEROS
    return Variant(title, config, impossible=IMPOSSIBLE, control=control, cells=(("census", 1.0),))


# Settings that act on scored pairs do nothing on the census table, those of triples nothing at epsilon 1.
SETTINGS = {
    PLAIN: Variant("control of the settings below", cells=(*AT_ONE, *AT_EIGHT)),
    "min_entropy": setting("min_entropy = 1", min_entropy=1.0),
    "noisy_dependence": setting("noisy_dependence ≈ 0", noisy_dependence=1e-9),
    "smoothing_high": setting("max_smoothing_noise = ∞", max_smoothing_noise=math.inf),
    "residual_noise": setting("residual_noise = 1", residual_noise=1.0),
    "one_way_share": setting("one_way_share = 0.04", one_way_share=0.04),
    "one_way_noise": setting("one_way_noise = 0.01", one_way_noise=0.01),
    "scores_share": setting("scores_share = 0.1, from 0.05", scores_share=0.1),
    "group_noise": setting("group_noise = 9", group_noise=9.0),
    "max_group": setting("max_group = 1", max_group=1.0),
    "latent_dim": setting("latent_dim = 16", latent_dim=16),
    "hidden": setting("hidden = ()", hidden=()),
    "learning_rate": setting("learning_rate = 0.003", learning_rate=3e-3),
    "steps": setting("steps = 1500", steps=1500),
    "max_merged_in_triples": setting(
        "max_merged_in_triples = 1", cells=AT_EIGHT, max_merged_in_triples=1.0
    ),
    "max_triples": setting("max_triples = 40", cells=AT_EIGHT, max_triples=40),
    "triples_share": setting("triples_share = 0.15", cells=AT_EIGHT, triples_share=0.15),
    ZEROS: of_zeros(WITH_ZEROS),
    "zero_steps": of_zeros("no steps against impossible rows", zero_steps=1),
    "zero_rate": of_zeros("zero_rate = 1", zero_rate=1.0),
}


def removed(title: str, control: str = PLAIN) -> Variant:
    """What the method once had, without it: rows that were measured before it was removed, never again."""
    return Variant(title, control=control, cells=())


REMOVED = {
    "no-bumps": removed("no Gaussian bumps in ordered columns", ""),
    "short_steps": removed("no shorter schedule where little is shown"),
    "patience": removed("no end where the loss stays"),
    "stop": removed("the fit's end at the noise, not below it"),
    "smoothing_low": removed("smoothing however low the noise"),
    "max_merged": removed("no limit on merged values, for pairs"),
    "max_one_way_share": removed("no limit on the share of columns counted again"),
    "score_margin": removed("scores without a margin of their noise"),
    "strong_margin": removed("finer groups without a margin of noise"),
    "strong_dependence": removed("no finer groups for nearly functional pairs"),
    "zero_std": removed("impossible rows weighed as counts of std 1, not 5", ZEROS),
}
# The number of components, which follows from the counts, against the number that it was before.
SPEED = {
    "by-counts": Variant("by the counts", cells=FAST),
    "thousand": Variant("1,000 before", {"components": 1000}, cells=FAST[:2]),
}
# Choices for wide tables, without one of them each.
WIDE_CHOICES = {
    "no-tree": Variant(
        "no larger share for the strongest pairs", {"tree_weight": 1.0}, cells=WIDE_CELLS
    ),
    "one-group": Variant(
        "all rare values of a column in one group",
        replaced=((columns, "merge_rare", one_group), (hierarchical, "merge_rare", one_group)),
        cells=WIDE_CELLS,
    ),
    "max_group_05": Variant(
        "max_group = 0.05, as in triples", {"max_group": 0.05}, cells=WIDE_CELLS
    ),
    "scores_share_05": Variant("scores_share = 0.05", {"scores_share": 0.05}, cells=WIDE_CELLS),
    "tree-always": Variant(
        "a larger share for the strongest pairs also where counts are clear",
        {"tree_noise": 0.0},
        cells=CLEAR_CELLS,
    ),
    "no-return": Variant(
        "that, and no smaller learning rate where the error rises",
        {"tree_noise": 0.0},
        replaced=((MargNetFit, "_is_stable", always),),
        cells=CLEAR_CELLS,
    ),
}
# What the signs of all triples cost tables without structure that no pair shows; see high_order.py.
PLAIN_TABLES = (("census", 1.0), ("adult", 1.0), ("census", 0.5))
HIGH_ORDER = {
    "no-interactions": Variant(
        "without signs of triples", {"interactions_share": 0.0}, cells=PLAIN_TABLES
    ),
    "interactions": Variant(
        "with them",
        replaced=((NoisyCounts, "contrasts", with_own_noise),),
        cells=PLAIN_TABLES,
    ),
}
HINTS = {
    "default": Variant("as it is", cells=AT_ONE[:1]),
    "workload": Variant(
        "workload=[(PUMA, AGEP)]", hints={"workload": [("PUMA", "AGEP")]}, cells=AT_ONE[:1]
    ),
    "target": Variant("target=PINCP_DECILE", hints={"target": "PINCP_DECILE"}, cells=AT_ONE[:1]),
}


def shuffled(schema: Schema) -> pd.DataFrame:
    """The 2018 table with each column in an order of its own: what no two columns have to do with each other."""
    rows, rng = excerpt("census_national_2018", schema), np.random.default_rng(2)
    return pd.DataFrame({c: rows[c].to_numpy()[rng.permutation(len(rows))] for c in rows}).astype(
        rows.dtypes.to_dict()
    )


def elsewhere(schema: Schema) -> pd.DataFrame:
    """Massachusetts for the nation: its rows in areas of the nation that are drawn at random."""
    rng = np.random.default_rng(3)
    raw = pd.read_csv(data_file("census_ma_2018.csv"), dtype=str, keep_default_na=False)
    raw = raw[list(schema.names)]
    areas = schema["PUMA"].categories or ()
    return parsed(raw.assign(PUMA=rng.choice(areas, len(raw))), schema)


def whole(*_: Any) -> float:
    return 1.0


def estimate_alone(prior: PriorCounts) -> float:
    return max(prior.rows / len(prior.codes), prior.estimated_drift()[0])


SWEEP = _Draw._sweep


def swept_by_pairs(
    draw: _Draw, j: int, codes: np.ndarray, error: np.ndarray, common: np.ndarray, triples: Any,
    of_triples: np.ndarray,
) -> None:  # fmt: skip
    SWEEP(draw, j, codes, error, common, None, of_triples)
    of_triples[:] = triples.error(codes - draw.mixture.starts)


TRIPLES = _Triples.__init__


def with_equal_weights(triples: _Triples, *given: Any) -> None:
    TRIPLES(triples, *given)
    triples.weights = np.sign(triples.weights)


EPSILONS = (0.1, 1.0, 8.0)
PUBLIC_OF: dict[str, Callable[[Schema], pd.DataFrame]] = {
    "census": lambda schema: excerpt("census_national_2018", schema),
    "census-ma": lambda schema: excerpt("census_ma_2018", schema),
    "adult-half": lambda schema: half_of_adult(schema, second=True),
}
CELLS = tuple((table, epsilon) for epsilon in EPSILONS for table in PUBLIC_OF)
PRIORS = {
    "without": Variant("without a public table", cells=CELLS),
    **{
        f"with-{table}": Variant(
            "with the public table",
            cells=tuple((table, epsilon) for epsilon in EPSILONS),
            public=public,
        )
        for table, public in PUBLIC_OF.items()
    },
    "shuffled": Variant(
        "with a wrong one: 2018, columns shuffled",
        cells=(("census", 0.1), ("census", 1.0)),
        public=shuffled,
    ),
    "elsewhere": Variant(
        "with a wrong one: Massachusetts",
        cells=(("census", 0.1), ("census", 1.0)),
        public=elsewhere,
    ),
}


# One rule of the prior taken out, or another setting.
OF_PRIOR = {
    "half": Variant(
        "half of the model are public rows",
        {"prior_share": 0.5},
        cells=(("census", 0.1), ("census", 1.0)),
        public=PUBLIC_OF["census"],
    ),
    # At ε = 0.1 the budget is allocated as without a public table in any case.
    **{name: Variant(
        title, config, replaced=replaced, cells=(("census", 1.0),), public=PUBLIC_OF["census"]
    )
    for name, title, config, replaced in (
        ("budget-as-without", "budget as without a public table", {"prior_unexplained": 0.0}, ()),
        ("groups-as-without", "groups of values as without a public table", {"prior_group_noise": MargNetConfig.group_noise}, ()),
        ("shares-as-without", "shares of the budget as without a public table", {"prior_least_share": 1.0}, ()),
        ("triples-alike", "equal weights of all triples of values in samples", {}, ((_Triples, "__init__", with_equal_weights),)),
    )},
    "nine-tenths": Variant(
        "nine tenths of the model are public rows",
        {"prior_share": 0.9},
        cells=(("census", 0.1), ("census", 1.0)),
        public=PUBLIC_OF["census"],
    ),
    **{name: Variant(
        title,
        config,
        replaced=replaced,
        cells=(("census-ma", 0.1), ("census-ma", 1.0)),
        public=PUBLIC_OF["census-ma"],
    )
    for name, title, config, replaced in (
        ("rows-alone", "weighted rows alone", {"prior_share": 1.0}, ()),
        ("no-classes", "no latent classes: the mixture in their place", {}, ((PriorCounts, "clarity", whole),)),
        ("no-mixture", "no mixture: classes in its place", {}, ((PriorCounts, "clarity", no_share),)),
        ("estimated", "the drift as it is estimated, not less its standard error", {}, ((PriorCounts, "drift", estimate_alone),)),
        ("pairs-moved", "entries moved by counts of pairs alone", {}, ((_Draw, "_sweep", swept_by_pairs),)),
    )},
}  # fmt: skip


def code() -> str:
    """A hash of the sources of the method."""
    folder = Path(measuring.__file__).parent
    sources = [*sorted(folder.glob("*.py")), folder.parent / "mixture.py"]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


def main(table: str, epsilon: str, seed: str, variant: str, limit: str, out: str) -> dict[str, Any]:
    limit_cpu(int(limit))
    schema, train, _ = TABLES[table].split()
    chosen = (VARIANTS | SETTINGS | HINTS | SPEED | WIDE_CHOICES | PRIORS | OF_PRIOR | HIGH_ORDER)[
        variant
    ]
    with ExitStack() as stack:
        for place, name, value in chosen.replaced:
            stack.enter_context(patch.object(place, name, value))
        if chosen.impossible:
            schema = Schema(schema.columns, impossible=chosen.impossible)
        prior = {}
        if chosen.public is not None:
            prior = {"public": chosen.public(schema), "provenance": "a public table of the report"}
        model = MargNet(
            schema,
            epsilon=float(epsilon),
            random_state=int(seed),
            config=MargNetConfig(**chosen.config),
            **chosen.hints,
            **prior,
        )
        result = fitted(model, train, out)
    counted = [m["details"] for m in model.certificate()["mechanisms"]][-1]
    return result | {
        "components": len(model.trained_.generator.probabilities),
        "pairs": counted.get("pairs", 0),
        "triples": counted.get("triples", 0),
        "use": model.facts_["public"]["public_table"],
        "code": code(),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
