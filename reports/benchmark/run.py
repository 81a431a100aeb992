"""The benchmark: every synthesizer × epsilon × table × seed, and peers. Each run is a row, and the page is made from the rows.

    python reports/benchmark/run.py                     # runs what is missing, then writes the page
    python reports/benchmark/run.py --write             # only writes
    python reports/benchmark/run.py --only adult-mst    # only runs whose key contains this; writes nothing
    python reports/benchmark/run.py --config MINE.toml  # a benchmark of your own, beside that file

The tables and the evaluation protocol are benchmark files of data/README.md. The peers are installed into an environment of their
own in the folder for temporary files. A run is stored when it is done: Ctrl-C, or a scheduler's SIGTERM,
ends the current run and loses no other.
"""

import argparse
import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import config as configs  # noqa: E402
from runner import Runner, Stopped  # noqa: E402

from tabsynth.errors import TabsynthError  # noqa: E402


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    out = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    out.add_argument("--config", type=Path, default=HERE / "config.toml")
    out.add_argument("--write", action="store_true", help="only write the page, from the store")
    out.add_argument("--only", help="only runs whose key contains this")
    out.add_argument("--again", action="store_true", help="with --only: also those that are stored")
    return out


def main(options: argparse.Namespace) -> None:
    """Make the missing runs and write the page."""
    config = configs.load(options.config)
    if options.again and not options.only:
        sys.exit("--again needs --only: name the runs that are to be made again.")
    if not options.write:
        Runner(config, options.only, again=options.again).run()
    if not options.only:
        from writing import write  # matplotlib takes its time

        write(config)


if __name__ == "__main__":
    # As Ctrl-C: fits are processes, and none is to outlive this one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main(parser().parse_args())
    except KeyboardInterrupt:
        sys.exit(130)
    except (TabsynthError, Stopped) as error:
        sys.exit(str(error))
