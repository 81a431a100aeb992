"""K teachers as one network: the numbers of K networks, each of its own shard alone (R15)."""

import math
import resource
from types import SimpleNamespace

import forked
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from tabsynth.synthesizers.pate.config import PATEConfig
from tabsynth.synthesizers.pate.teachers import PATENetworks, Teachers, TeacherTrainer
from tabsynth.training.networks import mlp

torch.set_num_threads(1)
WIDTH, BATCH = 6, 5


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def alone(teachers: Teachers, k: int) -> nn.Sequential:
    """Teacher k as a network of its own."""
    layers: list[nn.Module] = []
    for weight, bias in zip(teachers.weights, teachers.biases, strict=True):
        layer = nn.Linear(weight.shape[1], weight.shape[2], dtype=weight.dtype)
        with torch.no_grad():
            layer.weight.copy_(weight[k].T)
            layer.bias.copy_(bias[k, 0])
        layers += [layer, nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def trainer_of(
    widths: list[int], sizes: list[int], classes: int = 0
) -> tuple[TeacherTrainer, Tensor]:
    teachers = Teachers(len(sizes), widths, rng()).double()
    shard = torch.cat([torch.full((n,), k) for k, n in enumerate(sizes)])
    shard = shard[torch.randperm(len(shard), generator=rng(3))]
    rows = torch.rand(len(shard), WIDTH, generator=rng(1), dtype=torch.float64)
    labels = torch.randint(classes, (len(shard),), generator=rng(2)) if classes else None
    return TeacherTrainer(teachers, rows, labels, shard, 1e-2), shard


@pytest.mark.parametrize("hidden", [[], [4], [4, 3]])
@pytest.mark.parametrize("classes", [0, 3])
def test_one_batched_step_is_that_of_k_modules(hidden: list[int], classes: int) -> None:
    """float64, shards of 0, 1 and many rows, several steps: the loop over K modules agrees."""
    trainer, _ = trainer_of([WIDTH, *hidden, 1 + classes], [3, 0, 1, 40], classes)
    networks = [alone(trainer.teachers, k) for k in range(4)]
    optimizers = [
        torch.optim.Adam(network.parameters(), 1e-2, betas=(0.5, 0.9)) for network in networks
    ]
    for step in range(4):
        fake = torch.rand(7, WIDTH, generator=rng(step), dtype=torch.float64)
        picked = trainer.pick_rows(BATCH, rng(9 + step))
        for k, (network, moves) in enumerate(zip(networks, optimizers, strict=True)):
            says = network(fake)
            loss = binary_cross_entropy_with_logits(says[:, 0], torch.zeros_like(says[:, 0]))
            if k != 1:
                says = network(trainer.rows[picked[k]])
                loss = loss + binary_cross_entropy_with_logits(
                    says[:, 0], torch.ones_like(says[:, 0])
                )
                if trainer.classes is not None:
                    loss = loss + cross_entropy(says[:, 1:], trainer.classes[picked[k]])
            moves.zero_grad()
            loss.backward()
            for (
                p
            ) in network.parameters():  # the class head of a teacher without rows has no gradient
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            moves.step()
        trainer.step(BATCH, fake, rng(9 + step))
        for k, network in enumerate(networks):
            for ours, theirs in zip(
                alone(trainer.teachers, k).parameters(), network.parameters(), strict=True
            ):
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)
    rows = torch.rand(11, WIDTH, generator=rng(5), dtype=torch.float64)
    output = torch.cat(trainer.teachers.outputs(rows), dim=1)
    for k, network in enumerate(networks):
        torch.testing.assert_close(output[k], network(rows).detach())


def test_each_teacher_picks_from_its_own_shard() -> None:
    trainer, shard = trainer_of([WIDTH, 1], [3, 0, 1, 40])
    picked = trainer.pick_rows(500, rng())
    for k in (0, 2, 3):
        assert set(picked[k].tolist()) == set(torch.nonzero(shard == k).flatten().tolist())


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("hidden", [[], [9], [16, 5]])
def test_a_record_changes_its_own_network_alone(hidden: list[int], threads: int) -> None:
    """R15, to the bit, in float32 with dense codes: added anywhere, to a large shard or an empty one."""
    before, draw = torch.get_num_threads(), rng(4)
    width, sizes = 37, [3, 0, 1, 40, 2, 7, 0]
    shard = torch.cat([torch.full((n,), k) for k, n in enumerate(sizes)])
    shard = shard[torch.randperm(len(shard), generator=draw)]
    rows = torch.randn(len(shard), width, generator=draw)
    extra = torch.randn(1, width, generator=draw)

    def trained(rows: Tensor, shard: Tensor) -> tuple[list[Tensor], Tensor]:
        teachers, public = Teachers(len(sizes), [width, *hidden, 1], rng()), rng(7)
        trainer = TeacherTrainer(teachers, rows, None, shard, 1e-2)
        for _ in range(4):
            fake = torch.rand(6, width, generator=public)
            trainer.step(BATCH, fake, public)
        return [p.detach() for p in teachers.parameters()], torch.rand(3, generator=public)

    try:
        torch.set_num_threads(threads)
        for some in (rows, rows[:0]):
            own = shard[: len(some)]
            whole, after = trained(some, own)
            for k in range(len(sizes)):
                place = int(torch.randint(len(some) + 1, (1,), generator=draw))
                more, also = trained(
                    torch.cat([some[:place], extra, some[place:]]),
                    torch.cat([own[:place], torch.tensor([k]), own[place:]]),
                )
                changed = torch.zeros(len(sizes), dtype=torch.bool)
                for one, other in zip(whole, more, strict=True):
                    changed |= (one != other).flatten(1).any(1)
                # A large shard may not have shown the record to its teacher in these steps.
                assert changed.nonzero().flatten().tolist() in ([k], [])
                assert changed[k] or (sizes[k] > 5 and len(some))
                assert torch.equal(after, also)  # what is drawn next is as public as before
    finally:
        torch.set_num_threads(before)


def test_two_thousand_teachers_fit_in_memory() -> None:
    """Of the default size, on a wide table, with the moments of Adam: in one step, below 2 GB."""
    with forked.CONTEXT.Pool(1) as pool:
        assert pool.apply(_peak_of_two_thousand) < 2 * 2**30


def _peak_of_two_thousand() -> int:
    """Bytes of a process at most."""
    widths = [400, *PATEConfig().networks.teacher_hidden, 1]
    trainer = TeacherTrainer(
        Teachers(2000, widths, rng()),
        torch.rand(500, 400, generator=rng(1)),
        None,
        torch.arange(500) % 2000,
        1e-3,
    )
    before = trainer.teachers.weights[0].detach().clone()
    trainer.step(4, torch.rand(8, 400, generator=rng(2)), rng(3))
    assert (trainer.teachers.weights[0] != before).flatten(1).any(1).all()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def yes_counts(teachers: Teachers, rows: Tensor) -> Tensor:
    """The clean counts of yes that networks hand to the aggregator."""
    seen: list[Tensor] = []

    def binary(yes: Tensor, count: int) -> Tensor:
        seen.append(yes)
        return yes > count / 2

    training = SimpleNamespace(
        _teachers=teachers,
        _hide_label=lambda codes: codes,
        _classes=0,
        ensemble=SimpleNamespace(teachers=len(teachers.weights[0])),
    )
    PATENetworks._answers(training, SimpleNamespace(binary=binary), rows)  # type: ignore[arg-type]
    return seen[0]


def test_a_teacher_says_yes_to_half_of_the_questions_by_itself_alone() -> None:
    """Whatever its level: and another teacher moves each count by 1 at most (R15)."""
    rows = torch.rand(101, WIDTH, generator=rng(1))
    teachers = Teachers(7, [WIDTH, 4, 1], rng())
    counts = yes_counts(teachers, rows)
    assert counts.sum() == 7 * 50
    with torch.no_grad():
        teachers.biases[-1][2] += 40.0  # another level alone: the same votes
        assert (yes_counts(teachers, rows) == counts).all()
        teachers.weights[-1][2] *= -1
    assert (yes_counts(teachers, rows) - counts).abs().max() == 1


def test_xaviers_first_weights() -> None:
    """U[-b, b] with b² = 6 / (inputs + outputs), of networks and teachers; biases are 0."""
    network, teachers = mlp([30, 20], rng(), xavier=True), Teachers(9, [30, 20], rng(), xavier=True)
    for weight in (network[0].weight.detach(), teachers.weights[0].detach()):
        assert weight.abs().max() == pytest.approx(math.sqrt(6 / 50), rel=0.02)
        assert weight.std() == pytest.approx(math.sqrt(2 / 50), rel=0.08)
    assert not network[0].bias.any() and not teachers.biases[0].any()
