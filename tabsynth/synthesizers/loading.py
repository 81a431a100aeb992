"""From a model file back to a fitted synthesizer."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from tabsynth import methods
from tabsynth._validate import shown
from tabsynth.errors import FileFormatError
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.model_file import read_model


class Estimators(Mapping[str, type[Synthesizer]]):
    """From the name of every method of :mod:`tabsynth.methods` to its estimator, imported at the first use."""

    def __getitem__(self, name: str) -> type[Synthesizer]:
        registered = methods.METHODS[name]
        estimator: type[Synthesizer] = getattr(
            import_module(registered.module), registered.estimator
        )
        return estimator

    def __iter__(self) -> Iterator[str]:
        return iter(methods.METHODS)

    def __len__(self) -> int:
        return len(methods.METHODS)


METHODS = Estimators()


def load(path: str | Path) -> Synthesizer:
    """A fitted synthesizer from a file that :meth:`Synthesizer.save` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, not a model, or of another version of the format.
    """
    facts, weights = read_model(path)
    method = METHODS.get(str(facts.get("method")))
    if method is None:
        raise FileFormatError(f"{path} is a model of unknown method {shown(facts.get('method'))}.")
    return method._from_file(facts, weights, path)
