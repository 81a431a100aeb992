"""Make the tables that the project ships: synthetic, each with its certificate beside it.

Run by hand by a maintainer. The source tables are benchmark files (README.md), in the folder that TABSYNTH_DATA names:

    python data/make.py [--source FOLDER] [--only census]

What is written depends on the source tables through the private fit alone. The numbers of rows are
constants of this file, not the sources' (rule R14), and the schemas come from public codebooks (R12).
"""

import argparse
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from benchmark_data import data_file
from sources import prepare_census, prepare_hospital

from tabsynth import MargNet, Schema, TabsynthError

HERE = Path(__file__).resolve().parent
EPSILON = 8.0
DELTA = 1e-5

log = logging.getLogger("data.make")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one table is made.

    Attributes
    ----------
    source : str
        File name of the source table.
    prepare : callable
        (path, schema) to the table that is fitted.
    rows : int
        Rows that are written.
    """

    source: str
    prepare: Callable[[Path, Schema], pd.DataFrame]
    rows: int


RECIPES = {
    "census": Recipe(source="census_national_2019.csv", prepare=prepare_census, rows=10_000),
    "hospital": Recipe(source="diabetes_hospital_5000.csv", prepare=prepare_hospital, rows=5_000),
}


def make(name: str, source: Path | None, out: Path) -> Path:
    """Fit one table at (EPSILON, DELTA) and write its synthetic copy and certificate to ``out``.

    Without ``source`` the table is a benchmark file.
    """
    recipe = RECIPES[name]
    schema = Schema.load(HERE / f"{name}.schema.json")
    file = source / recipe.source if source else data_file(recipe.source)
    private = recipe.prepare(file, schema)
    synthesizer = MargNet(schema, epsilon=EPSILON, delta=DELTA)
    log.info("Fitting %s at epsilon=%g, delta=%g", name, EPSILON, DELTA)
    synthesizer.fit(private)
    target = out / f"{name}.csv"
    synthesizer.sample_to(target, recipe.rows)
    log.info("Wrote %s", target)
    return target


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--source", type=Path, help="the folder of the source tables, in place of TABSYNTH_DATA"
    )
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--only", choices=sorted(RECIPES), action="append")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        for name in options.only or RECIPES:
            make(name, options.source, options.out)
    except TabsynthError as error:
        log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
