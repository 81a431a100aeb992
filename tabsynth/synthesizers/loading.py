"""The estimators of the registered methods, and a fitted synthesizer from a model file."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

from tabsynth import methods
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.model import read_model


class Estimators(Mapping[str, type[Synthesizer]]):
    """The estimator of every registered method by name, imported at the first use."""

    def __init__(self, registered: Mapping[str, methods.Method]) -> None:
        self.registered = registered

    def __getitem__(self, name: str) -> type[Synthesizer]:
        """Return the entry of a name."""
        registered = self.registered[name]
        estimator: type[Synthesizer] = getattr(
            import_module(registered.module), registered.estimator
        )
        return estimator

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of methods."""
        return iter(self.registered)

    def __len__(self) -> int:
        """Return the number of methods."""
        return len(self.registered)


METHODS = Estimators(methods.METHODS)
LINKED = Estimators(methods.LINKED)


def load(path: str | Path) -> Synthesizer:
    """Load a fitted synthesizer from a file that :meth:`Synthesizer.save` wrote.

    Raises
    ------
    FileFormatError
        If the file is damaged, not a model, or of another version of the format.
    """
    facts, weights = read_model(path)
    name = str(facts.get("method"))
    method = METHODS.get(name) or LINKED.get(name)
    if method is None:
        raise FileFormatError(f"{path} is a model of unknown method {quote(facts.get('method'))}.")
    return method.from_file(facts, weights, path)
