"""The weights at the end of training: how flat the loss is around them, and how each group of people fares."""

import torch
from study import LABEL, Adult, Run, cross_entropies
from torch import Tensor, nn

from tabsynth.evaluation.utility.subgroups import LEAST_ROWS
from tabsynth.training.clipping import PerExampleClipper

# How far the weights are moved, in their own units, and along how many random directions.
AROUND, DIRECTIONS = (0.3, 1.0, 3.0), 50
GROUPS = ("sex", "race")


def flatness(module: nn.Module, rows: Tensor, seed: int) -> dict[str, float]:
    """Of the classifier's mean log-loss around its weights, on PUBLIC rows.

    Returns
    -------
    dict
        ``gradient``: ‖∇L‖. ``row gradients``: meanᵢ ‖gᵢ‖, never less (Lemma 3 of the source).
        ``weights``: ‖θ‖. For each distance r of ``AROUND``: ``mean r`` and ``max r``, the rise of L over
        random directions, uniform on the sphere and the same for all rules of a seed; ``ascent r``, the
        rise along ∇L.
    """
    clipper = PerExampleClipper(module)
    gradient = [g.detach() for g in clipper.mean_gradient(cross_entropies, rows)]
    weights = [p.detach().clone() for p in clipper.parameters]

    def loss_at(direction: list[Tensor], distance: float) -> float:
        norm = torch.stack([d.norm() for d in direction]).norm().clamp_min(1e-30)
        with torch.no_grad():
            for p, w, d in zip(clipper.parameters, weights, direction, strict=True):
                p.copy_(w + distance / norm * d)
            result = float(cross_entropies(module, rows).double().mean())
            for p, w in zip(clipper.parameters, weights, strict=True):
                p.copy_(w)
        return result

    here = loss_at(gradient, 0.0)
    out = {
        "gradient": float(torch.stack([g.norm() for g in gradient]).norm()),
        "row gradients": float(clipper.norms(cross_entropies, rows).mean()),
        "weights": float(torch.stack([w.norm() for w in weights]).norm()),
    }
    draw = torch.Generator().manual_seed(4000 + seed)
    drawn = [[torch.randn(w.shape, generator=draw) for w in weights] for _ in range(DIRECTIONS)]
    for distance in AROUND:
        rises = [loss_at(direction, distance) - here for direction in drawn]
        out[f"mean {distance:g}"] = sum(rises) / len(rises)
        out[f"max {distance:g}"] = max(rises)
        out[f"ascent {distance:g}"] = loss_at(gradient, distance) - here
    return {name: float(f"{value:.5g}") for name, value in out.items()}


def groups(run: Run, adult: Adult, codes: Tensor) -> dict[str, dict[str, float]]:
    """By group of people, e.g. ``sex 0``: rows, share of high incomes, accuracy, log-loss and recall.

    Groups of fewer rows than ``subgroup_gap`` judges (``LEAST_ROWS``) are left out.
    """
    rows, columns = adult.features(codes), list(adult.domain)
    with torch.no_grad():
        logits = run.module(rows[:, :-1]).squeeze(1)
        losses = cross_entropies(run.module, rows)
    label = codes[:, columns.index(LABEL)] > 0
    right = (logits > 0) == label
    out = {}
    for column in GROUPS:
        values = codes[:, columns.index(column)]
        for value in range(adult.domain[column]):
            own = values == value
            if int(own.sum()) < LEAST_ROWS:
                continue
            out[f"{column} {value}"] = {
                "n": int(own.sum()),
                "positive": float(label[own].float().mean()),
                "accuracy": float(right[own].float().mean()),
                "loss": float(losses[own].mean()),
                "recall": float(right[own & label].float().mean()),
            }
    return out
