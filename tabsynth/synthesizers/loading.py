"""From a model file back to a fitted synthesizer."""

from pathlib import Path

from tabsynth._validate import shown
from tabsynth.errors import FileFormatError
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.gan.dpgan import DPGAN
from tabsynth.synthesizers.gan.dpwgan import DPWGAN
from tabsynth.synthesizers.margnet.estimator import MargNet
from tabsynth.synthesizers.model_file import read_model
from tabsynth.synthesizers.pate.estimator import PATEGAN
from tabsynth.synthesizers.pate.pateacgan import PATEACGAN

METHODS: dict[str, type[Synthesizer]] = {
    DPGAN.method: DPGAN,
    DPWGAN.method: DPWGAN,
    MargNet.method: MargNet,
    PATEACGAN.method: PATEACGAN,
    PATEGAN.method: PATEGAN,
}


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
