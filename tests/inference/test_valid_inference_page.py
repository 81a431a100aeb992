"""The Python blocks of the guide to valid inference, and of public priors, run as they stand, on fewer rows and columns."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "valid-inference.md"
FEWER = {
    "table, schema = load_census()": "table, schema = load_census()\n"
    'names = ["AGEP", "SEX", "MSP", "OWN_RENT"]\n'
    "table, schema = table[names][:3000], schema.select(names)",
    "epsilon=1.0)": "epsilon=4.0, random_state=0, config=MargNetConfig(components=50, steps=60))",
    "import MargNet,": "import MargNet, MargNetConfig,",
}


def blocks_of(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "says"), [("README.md", "standard_error"), ("docs/how-to/warm-starts.md", "drift")]
)
def test_a_public_prior_takes_five_lines(page, says, capsys):
    source = next(block for block in blocks_of(ROOT / page) if "public=table" in block)
    assert len([line for line in source.splitlines() if line]) == 5
    fewer = {**FEWER, "[:5000]": "[:1500]", "[5000:]": "[1500:]"}
    fewer["epsilon="] = "config=MargNetConfig(components=50, steps=60), random_state=0, epsilon="
    for whole, part in fewer.items():
        source = source.replace(whole, part) if whole != "epsilon=1.0)" else source
    exec(compile(source, page, "exec"), {})
    assert says in capsys.readouterr().out


@pytest.mark.slow
def test_the_blocks_run(capsys):
    blocks = blocks_of(PAGE)
    assert len(blocks) == 4
    assert len([line for line in blocks[0].splitlines() if line]) <= 5
    source = "\n".join(blocks)
    for whole, part in FEWER.items():
        assert source.count(whole) == 1
        source = source.replace(whole, part)
    exec(compile(source, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out
    assert printed.count("standard_error") == 3
