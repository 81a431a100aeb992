"""The document's own system, by Huat 2018, on the 8 × 8 digits: tests 0, 1 and 2 of its Sections 4 and 5.

This is a reproduction, and not private: it clips the mean of a batch, and tests 1 and 2 start from
networks that were trained on private rows without noise. Nothing here goes through the ledger, and no
result of it carries a certificate. :func:`claims` says what its epsilon would be.

NOTE[DIFF] The document has 28 × 28 pixels and hidden layers of 89, 10 and 89 units. The author's code
takes the middle width as the geometric mean of 10 and the number of pixels: 89 of 784, and 25 of 64.
NOTE[DIFF] 1,233 training rows where MNIST has 60,000: pretraining takes more passes over fewer rows.
NOTE[DIFF] The critic's widths are a quarter of the document's 64 channels and 512 units, as the
generator's are, for 1/12 of the pixels; and 500 "epochs" are half of its tests 1 and 2. Both save time.
"""

import math
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from pictures import SIGNS
from study import parts
from tables import DIGITS, LABEL, LEVELS, PIXELS, SIDE, inception_score
from torch import Tensor, nn

from tabsynth.privacy.accounting.accountants import epsilon_of, gaussian_epsilon
from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
from tabsynth.training.diagnostics import overestimation

BATCH, CRITIC_STEPS, PENALTY, DELTA = 64, 4, 10.0, 1e-5
EPOCHS = 500  # of dp-GAN: four critic steps and one of the generator each
PRETRAINING = {"generator": 300, "critic": 20}  # passes over the rows, in batches of 32
CHANNELS, UNITS = 16, 128  # of the critic's convolutions and of its dense layers
CODE = 10  # units of the autoencoder's middle layer
EVERY = 10  # of the critic's costs that are kept
SHOWN = 10  # images of each kind


@dataclass(frozen=True)
class Test:
    """A test of the document; the values are those in the titles of its Figures 3, 8 and 6."""

    pretrained: bool
    bound: float  # C
    sigma: float
    adam: tuple[float, float, float]  # α, β₁, β₂


TESTS = {
    0: Test(False, 0.5, 0.5, (0.001, 0.9, 0.999)),
    1: Test(True, 1.0, 1.086, (0.002, 0.5, 0.9)),
    2: Test(True, 0.5, 0.5, (0.001, 0.9, 0.999)),
}
# The document's Table 1: s₊ of test rows, of noise, and of generated rows.
DOCUMENT = {
    0: (-0.3215, 0.5294, 0.5137),
    1: (-0.5656, 0.3814, 0.3746),
    2: (-0.6026, 0.2233, 0.4133),
}


def widths(pixels: int) -> tuple[int, int, int]:
    """Units of the generator's three hidden layers."""
    outer = round(math.sqrt(CODE * pixels))
    return outer, CODE, outer


def generator() -> nn.Sequential:
    """An autoencoder, SELU after every layer, as in the author's code: (n, 64) to (n, 64)."""
    sizes = [SIDE**2, *widths(SIDE**2), SIDE**2]
    layers: list[nn.Module] = []
    for into, out in pairwise(sizes):
        layers += [_lecun(nn.Linear(into, out)), nn.SELU()]
    return nn.Sequential(*layers)


def critic() -> nn.Sequential:
    """(n, 64) to (n, 10): three convolutions, each with max pooling, two dense layers, a head."""
    layers: list[nn.Module] = [nn.Unflatten(1, (1, SIDE, SIDE))]
    for channels in (1, CHANNELS, CHANNELS):
        convolution = _lecun(nn.Conv2d(channels, CHANNELS, 3, padding=1))
        layers += [convolution, nn.SELU(), nn.MaxPool2d(2)]
    layers.append(nn.Flatten())
    for into in (CHANNELS * (SIDE // 8) ** 2, UNITS):
        layers += [_lecun(nn.Linear(into, UNITS)), nn.SELU()]
    result = nn.Sequential(*layers, _head(DIGITS))
    return result.to(memory_format=torch.channels_last)  # pools faster


def discriminator(classifier: nn.Sequential, frozen: bool) -> nn.Sequential:
    """The critic with one sigmoid unit for its head; its convolutions ``frozen``."""
    changed = nn.Sequential(*deepcopy(classifier)[:-1], _head(1), nn.Sigmoid())
    if frozen:
        for layer in changed:
            layer.requires_grad_(not isinstance(layer, nn.Conv2d))
    return changed


def _lecun(layer: nn.Linear | nn.Conv2d) -> nn.Module:
    nn.init.normal_(layer.weight, std=layer.weight[0].numel() ** -0.5)
    nn.init.zeros_(layer.bias)
    return layer


def _head(units: int) -> nn.Linear:
    layer = nn.Linear(UNITS, units)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def clipped_and_noised(
    gradient: Tensor, bound: float, sigma: float, rng: torch.Generator
) -> Tensor:
    """The document's step on one variable: its *mean* gradient, clipped at C, plus N(0, (σC)²).

    This is no private step: one row can move the clipped mean by 2C, not by C / batch.
    """
    clipped = gradient / max(1.0, float(gradient.norm()) / bound)
    return clipped + sigma * bound * torch.randn(gradient.shape, generator=rng)


def critic_loss(
    critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, share: Tensor
) -> Tensor:
    """The mean of D(G(z)) − D(x) + λ(‖∇D(x̂)‖ − 1)², with x̂ = ρx + (1 − ρ)G(z); ``share`` holds ρ."""
    between = (share * real + (1 - share) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    penalty = PENALTY * (slope.norm(dim=1) - 1).square()
    scores, real_scores = critic(torch.cat([fake, real])).chunk(2)
    return (scores - real_scores).mean() + penalty.mean()


def train(
    generator: nn.Module,
    discriminator: nn.Module,
    images: Tensor,
    test: Test,
    rng: torch.Generator,
    epochs: int,
) -> dict[str, list[float]]:
    """Both networks in place; returns the cost of each critic step and each generator step."""
    alpha, *betas = test.adam
    learned = [p for p in discriminator.parameters() if p.requires_grad]
    critic_adam = torch.optim.Adam(learned, alpha, betas, fused=True)
    generator_adam = torch.optim.Adam(generator.parameters(), alpha, betas, fused=True)
    costs: dict[str, list[float]] = {"critic": [], "generator": []}

    def noise() -> Tensor:
        return torch.rand(BATCH, SIDE**2, generator=rng)

    for _ in range(epochs):
        for _ in range(CRITIC_STEPS):
            real = images[torch.randint(len(images), (BATCH,), generator=rng)]
            with torch.no_grad():
                fake = generator(noise())
            share = torch.rand(BATCH, 1, generator=rng)
            loss = critic_loss(discriminator, real, fake, share)
            for parameter, mean in zip(learned, torch.autograd.grad(loss, learned), strict=True):
                parameter.grad = clipped_and_noised(mean, test.bound, test.sigma, rng)
            critic_adam.step()
            costs["critic"].append(loss.item())
        loss = -discriminator(generator(noise())).mean()
        generator_adam.zero_grad()
        loss.backward()
        generator_adam.step()
        costs["generator"].append(loss.item())
    return costs


def _batches(rows: int, passes: int, rng: torch.Generator) -> Iterator[Tensor]:
    for _ in range(passes):
        yield from torch.randperm(rows, generator=rng).split(32)


@lru_cache(maxsize=1)
def pretrained(seed: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Generator and classifier, trained on the *private* rows without noise, Adam as Keras sets it.

    The generator restores images from images with noise of U[−1/2, 1/2] a pixel, which is what the
    author's code does; the document only names the mean squared error.
    """
    images, digits = pixels("private")
    rng = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        autoencoder, classifier = generator(), critic()
    adam = torch.optim.Adam(autoencoder.parameters())
    for index in _batches(len(images), PRETRAINING["generator"], rng):
        batch = images[index]
        noised = (batch + torch.rand(batch.shape, generator=rng) - 0.5).clamp(0, 1)
        _descend(nn.functional.mse_loss(autoencoder(noised), batch), adam)
    adam = torch.optim.Adam(classifier.parameters())
    for index in _batches(len(images), PRETRAINING["critic"], rng):
        _descend(nn.functional.cross_entropy(classifier(images[index]), digits[index]), adam)
    return autoencoder, classifier


def _descend(loss: Tensor, adam: torch.optim.Optimizer) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()


def pixels(part: str) -> tuple[Tensor, Tensor]:
    """Images in [0, 1], shape (n, 64), and digits of the ``private`` or the ``test`` rows."""
    table = parts("handwritten")[{"private": 0, "test": 2}[part]]
    images = table[PIXELS].to_numpy(np.float32) / (LEVELS - 1)
    return torch.from_numpy(images), torch.tensor([int(d) for d in table[LABEL]])


def claims(test: Test, rows: int, variables: int) -> dict[str, float]:
    """What Algorithm 1's accountant says of σ, and what can be proved; infinite after pretraining.

    The document has no accountant. A clipped mean stays within C of 0, so that one row moves it by at
    most 2C; ``variables`` of them, each with its own noise, are one Gaussian of multiplier
    σ / (2√variables) on batches that hold a given row with a chance of at most 64 / rows. The bound
    leaves that chance out: at so little noise it gains next to nothing.
    """
    steps = CRITIC_STEPS * EPOCHS
    mechanism = SubsampledGaussian(noise_multiplier=test.sigma, sampling_rate=BATCH / rows)
    multiplier = test.sigma / (2 * math.sqrt(variables))
    bound = gaussian_epsilon(math.sqrt(steps) / multiplier, DELTA)
    return {
        "claimed": epsilon_of([(mechanism, steps)], DELTA),
        "provable": math.inf if test.pretrained else bound,
    }


def measured(number: int, seed: int) -> dict:
    """One test of the document, and what its networks then do; of test rows no private one is read."""
    test, started = TESTS[number], time.process_time()
    images, _ = pixels("private")
    real, digits = pixels("test")
    results: dict = {"test": number, "seed": seed}
    rng = torch.Generator().manual_seed(1000 + seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 + seed)
        created, classifier = (
            deepcopy(pretrained(seed)) if test.pretrained else (generator(), critic())
        )
        judge = discriminator(classifier, frozen=test.pretrained)
    z = torch.rand(len(real), SIDE**2, generator=rng)
    if test.pretrained:
        with torch.no_grad():
            results["mse"] = float(nn.functional.mse_loss(created(real), real))
            results["error"] = float((classifier(real).argmax(1) != digits).float().mean())
            results["inception_before"] = inception_score(_levels(created(z)))
            before = created(z[:SHOWN])
    costs = train(created, judge, images, test, rng, EPOCHS)
    with torch.no_grad():
        fake = created(z)
        scores = [judge(rows) for rows in (real, z, fake)]
    s = overestimation(*scores)
    variables = sum(p.requires_grad for p in judge.parameters())
    results |= {
        "s_plus": [s.real, s.noise, s.generated],
        "inception": inception_score(_levels(fake)),
        "spread": float(fake.std(0).mean()),
        **{
            k: "inf" if math.isinf(v) else v
            for k, v in claims(test, len(images), variables).items()
        },
        "cpu_seconds": round(time.process_time() - started, 1),
        "costs": {
            "critic": _written(costs["critic"][::EVERY]),
            "generator": _written(costs["generator"][:: EVERY // 2]),
        },
        "scores": [[round(float(v), 2) for v in kind[:SHOWN]] for kind in scores],
        "samples": [_signs(rows[:SHOWN]) for rows in (real, z, fake)],
    }
    if test.pretrained:
        results["samples_before"] = _signs(before)
    return results


def _levels(images: Tensor) -> np.ndarray:
    return (images * (LEVELS - 1)).round().clamp(0, LEVELS - 1).int().numpy()


def _signs(images: Tensor) -> list[str]:
    return ["".join(SIGNS[level] for level in row) for row in _levels(images)]


def _written(values: list[float]) -> str:
    """Numbers in one line of a file."""
    return " ".join(f"{value:.3f}" for value in values)
