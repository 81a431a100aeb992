"""The style of the reports' plots."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest
import style
from PIL import Image


def test_a_plot_is_seven_inches_wide_and_leaves_the_settings_of_others(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    with style.plot(tmp_path / "a.png", height=2, columns=2, title="A line") as (_, axes):
        axes[0, 0].plot([0, 1], [0, 1], label="line")
        axes[0, 0].legend()
    assert axes.shape == (1, 2)
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (1050, 300)
    assert dict(mpl.rcParams) == before


def test_small_text_is_refused_and_nothing_is_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with (
        pytest.raises(ValueError, match="texts below 9 points: tiny"),
        style.plot(path, height=2, title="A label") as (_, axes),
    ):
        axes[0, 0].text(0, 0, "tiny", fontsize=8)
    assert not path.exists()


def test_a_title_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with (
        pytest.raises(ValueError, match="wider than the figure"),
        style.plot(path, height=2, title="A title of far too many words " * 4),
    ):
        pass
    assert not path.exists()


@pytest.mark.parametrize(
    "report", sorted(program.parent.name for program in style.REPORTS.glob("*/figures.py"))
)
def test_a_report_shows_the_pictures_that_its_program_draws(report: str, tmp_path: Path) -> None:
    folder = style.REPORTS / report
    style.draw(folder / "figures.py", tmp_path)
    shown = re.findall(r"!\[[^]]{20,}\]\(([^)]+)\)", (folder / "README.md").read_text("utf-8"))
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn and set(shown) == drawn == {path.name for path in folder.glob("*.png")}
