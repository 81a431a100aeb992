"""Build steps that pyproject.toml cannot state.

The tables of ``data/`` are in the package, as ``tabsynth/data``, and the long description is README.md in a form that a
package index can show.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

PATHS = (
    "Paths such as `docs/index.md` are files of the source distribution and of the repository.\n\n"
)


def long_description(readme: str) -> str:
    """README.md without relative pictures, and with the path in place of each relative link.

    A package index resolves neither. The project has no public address to put before them.
    """

    def plain(link: re.Match[str]) -> str:
        text, path = link[1], link[2].partition("#")[0]
        if not path or text == path:
            return text
        return f"{text} (`{path}`)"

    relative = r"(?!\w+:)[^)\s]*"
    without_pictures = re.sub(rf"!\[[^\]]*\]\({relative}\)\n*", "", readme)
    text = re.sub(rf"\[([^\]]+)\]\(({relative})\)", plain, without_pictures)
    return text.replace("## Installation\n", PATHS + "## Installation\n", 1)


setup(
    long_description=long_description(Path(__file__).with_name("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
    packages=[*find_packages(include=["tabsynth*"]), "tabsynth.data"],
    package_dir={"tabsynth.data": "data"},
)
