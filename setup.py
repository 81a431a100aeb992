"""Puts the tables of ``data/`` into the package, as ``tabsynth/data``; all else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["tabsynth*"]), "tabsynth.data"],
    package_dir={"tabsynth.data": "data"},
)
