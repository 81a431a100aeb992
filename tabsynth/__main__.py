"""``python -m tabsynth`` is the command ``tabsynth``."""

from tabsynth.cli import main

main()
