"""Every figure that a report can show has a definition, and the page of the documentation has the same ones."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from report_tables import certificate, schema, table
from test_degenerate import ALL, ATTACKS, EXPLAINED, KEYS, NAMES, SIZES, constant, mixed, weights

from tabsynth import compare, evaluate
from tabsynth.evaluation import measure, shadow_membership
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.evaluation.metric import Metric
from tabsynth.report.definitions import DEFINITIONS, GROUPS, defined, definition_of
from tabsynth.report.page import with_link

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "evaluation.md"
# Every first argument of a Metric, as far as it is written out, and keys that are passed on as such.
WRITTEN = re.compile(r'(?:Metric|_metric|_shown|_share_metric)\(\s*f?"(\{[\w.]+\}\.)?([a-z_0-9]+)"')


def test_every_key_in_the_code_has_a_definition():
    """Keys that are written out in the sources of metrics; the next test has those that are put together."""
    found = set()
    for path in (ROOT / "tabsynth" / "evaluation").rglob("*.py"):
        found |= {key for _, key in WRITTEN.findall(path.read_text("utf-8"))}
    assert {"k_marginal", "violations", "group_size", "singling_out", "rows", "orphans"} <= found
    for key in found - {"target_"}:
        assert definition_of(key, GROUPS) is not None, f"{key} has no definition"


@pytest.fixture(scope="module")
def measured():
    tables = (mixed(90), mixed(90, 1), mixed(60, 2))
    about = {"names": NAMES, "sizes": SIZES, "columns": ALL, "weights": weights(*tables)}
    return measure(*tables, **about, m=10, k=(1,))
