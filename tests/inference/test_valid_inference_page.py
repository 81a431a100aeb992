"""The Python blocks of the guide to valid inference run as they stand, on fewer rows and columns."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "valid-inference.md"
FEWER = {
    "table, schema = load_census()": "table, schema = load_census()\n"
    'names = ["AGEP", "SEX", "MSP", "OWN_RENT"]\n'
    "table, schema = table[names][:3000], schema.select(names)",
    "epsilon=1.0)": "epsilon=4.0, random_state=0, config=MargNetConfig(components=50, steps=60))",
    "import MargNet,": "import MargNet, MargNetConfig,",
}


@pytest.mark.slow
def test_the_blocks_run(capsys):
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 4
    assert len(blocks[0].strip().splitlines()) == 5
    source = "\n".join(blocks)
    for whole, part in FEWER.items():
        assert source.count(whole) == 1
        source = source.replace(whole, part)
    exec(compile(source, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out
    assert printed.count("standard_error") == 3
