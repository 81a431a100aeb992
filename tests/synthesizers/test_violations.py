"""The number of private rows that break a rule: released with noise where that is asked for, and nowhere else."""

import json
import logging
import math

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import DPWGAN, MargNet, Numeric, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.violations import SHARE, release_number

COLUMNS = [Numeric(name=n, dtype="int64", low=0, high=9) for n in ("low", "high")]
RULES = [{"order": ["low", "high"]}]
SCHEMA = Schema(COLUMNS, constraints=RULES, violations="drop")
SMALL = MargNetConfig(steps=20, hidden=(16,))


def rows(broken: int, kept: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    low = rng.integers(0, 5, kept)
    table = pd.DataFrame({"low": low, "high": low + rng.integers(0, 5, kept)})
    return pd.concat([table, pd.DataFrame({"low": [7] * broken, "high": [2] * broken})])


def test_the_number_has_the_noise_that_is_charged() -> None:
    encoder, numbers = TableEncoder(SCHEMA), []
    noise = 1 / (np.sqrt(SHARE) * gaussian_mu(1.0, 1e-5))
    for _ in range(120):
        ledger = Ledger(1.0, 1e-5)
        numbers.append(release_number("violations", rows(40, 50), encoder, ledger, None))
        (account,) = ledger.accounts
        assert account.spent == 1 and account.noise_multiplier == pytest.approx(noise)
        assert account.details["noisy_number"] == numbers[-1]
    assert abs(np.mean(numbers) - 40) < 4 * noise / np.sqrt(120)
    assert np.std(numbers) == pytest.approx(noise, rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: MargNet(SCHEMA, epsilon=1, config=SMALL),
        lambda: DPWGAN(SCHEMA, epsilon=1, rows=640, time_limit=3, autoencoder=None),
    ],
    ids=["margnet", "dp-wgan"],
)
def test_a_fit_counts_it_within_its_budget(make, caplog) -> None:
    with caplog.at_level(logging.DEBUG):
        model = make().fit(rows(137), count=["violations"])
    certificate = model.certificate()
    assert certificate["epsilon"] <= 1
    (item,) = [i for i in certificate["mechanisms"] if i["purpose"] == "rows that break a rule"]
    noisy = item["details"]["noisy_number"]
    assert abs(noisy - 137) < 6 * 38
    said = " ".join(caplog.messages)
    low, high = item["details"]["interval"]
    stated = f"about {noisy} (95%: {math.floor(low)} to {math.ceil(high)}) rows that break a rule"
    assert stated in said and low < 137 < high
    assert noisy == 137 or "137" not in said


@pytest.mark.slow
def test_nothing_says_how_many_rows_are_left_out(tmp_path) -> None:
    rows(137).to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.save(tmp_path / "s.json")
    words = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "--time-limit", "2s")
    said = run(*words, "-o", "m", cwd=tmp_path)
    assert "137" not in said.stdout + said.stderr
    assert "break" not in said.stdout + said.stderr
    said = run(*words, "-o", "n", "--count", "violations", cwd=tmp_path)
    assert "rows that break a rule of the schema, by a noisy count" in said.stdout + said.stderr
    run("sample", "n", "-n", 50, "-o", "u.csv", cwd=tmp_path)
    certificate = json.loads((tmp_path / "u.csv.certificate.json").read_text())
    assert any("noisy_number" in i["details"] for i in certificate["mechanisms"])
    refused(*words, "-o", "k", "--count", "violations", "--checkpoint", "c", cwd=tmp_path,
            says="takes no checkpoint")  # fmt: skip


def test_there_is_nothing_to_count_without_rules() -> None:
    model = MargNet(Schema(COLUMNS), epsilon=1, config=SMALL)
    with pytest.raises(InputError, match="no rules between columns"):
        model.fit(rows(3), count=["violations"])
    assert not hasattr(model, "ledger_")
