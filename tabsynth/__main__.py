"""``python -m tabsynth`` is the command ``tabsynth``."""

from tabsynth.cli import main

if __name__ == "__main__":
    main()
