"""What is measured on a GPU, as far as it runs without one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).with_name("gpu.py")


@pytest.mark.skipif(torch.cuda.is_available(), reason="it would measure for minutes")
def test_without_a_gpu_it_says_so(tmp_path):
    command = [sys.executable, SCRIPT, "--out", tmp_path / "rows.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr == "No GPU is at hand: nothing was measured.\n"
    assert not list(tmp_path.iterdir())


def test_a_small_run_measures_every_pair(tmp_path):
    out = tmp_path / "rows.json"
    command = [sys.executable, SCRIPT, "--device", "cpu", "--out", out]
    subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(out.read_text("utf-8"))
    assert rows.keys() == {"steps-64", "fit-margnet"}
    pairs = [(row["step"], row["both"]) for row in rows["steps-64"]["rows"]]
    assert len(set(pairs)) == len(pairs) == 6
    for row in rows["steps-64"]["rows"]:
        assert row["ratio"] == pytest.approx(row["private_ms"] / row["ordinary_ms"], rel=0.02)
    (fit,) = rows["fit-margnet"]["rows"]
    assert fit["rows"] == 200 and fit["fit"] > 0 and fit["sample"] >= 0
