"""Pair features, teachers and the student, each by a second road."""

import numpy as np
import pytest
import torch
from fitted_tables import second_moments
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column
from tabsynth.synthesizers.pate import features as pate_features
from tabsynth.synthesizers.pate.features import (
    LEAST_NORM_OF_LABEL,
    MarginalTeachers,
    PairFeatures,
    functions_of,
)
from tabsynth.synthesizers.pate.pairs import Answers, Student

torch.set_num_threads(1)
SCHEMA = Schema(
    [
        Column(name="a", kind="categorical", dtype="str", categories=("x", "y", "z")),
        Column(name="n", kind="numeric", dtype="Int64", low=0, high=6, nulls=True),
        Column(name="o", kind="ordinal", dtype="int64", categories=(1, 2, 3, 4)),
        Column(name="b", kind="ordinal", dtype="bool", categories=(False, True)),
    ]
)
ENCODINGS = ("one-hot", "binary", "ordinal")


def table(rows: int, seed: int = 0) -> np.ndarray:
    """Category codes with relations between all columns."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 3, rows)
    number = np.clip(first * 2 + rng.integers(0, 4, rows), 0, 7)
    ordered = np.clip(number // 2 + rng.integers(-1, 2, rows), 0, 3)
    return np.stack([first, number, ordered, (rng.random(rows) < 0.3 + 0.2 * first).astype(int)], 1)


def shares(index: np.ndarray) -> list[np.ndarray]:
    counts = [np.bincount(c, minlength=s) + 0.5 for c, s in zip(index.T, SCHEMA.sizes, strict=True)]
    return [c / c.sum() for c in counts]


def features(index: np.ndarray, per_column: int = 20, most: int = 10_000, **more: object):  # type: ignore[no-untyped-def]
    encoding = more.pop("encoding", "one-hot")
    layout = TableEncoder(SCHEMA, encoding).layout  # type: ignore[arg-type]
    functions = PairFeatures(layout, SCHEMA.columns, shares(index), per_column, most, **more)  # type: ignore[arg-type]
    return functions, torch.from_numpy(layout.encode(index))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("most", [1, 2, 9])
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 1000))
def test_functions_are_orthonormal(encoding: str, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layout = TableEncoder(SCHEMA, encoding).layout
    for column, block in zip(SCHEMA.columns, layout.blocks, strict=True):
        p = rng.dirichlet(np.ones(block.size)) + 0.01
        p /= p.sum()
        result = functions_of(column, block, p, most, 1e-3)
        assert result.shape[1] <= min(most, block.size - 1)
        values = np.concatenate([block.codebook, np.ones((block.size, 1))], axis=1) @ result
        np.testing.assert_allclose(p @ values, 0, atol=1e-5)
        np.testing.assert_allclose(values.T * p @ values, np.eye(result.shape[1]), atol=1e-5)
        if encoding == "one-hot" and most == 9:
            assert result.shape[1] == block.size - 1  # a whole basis


def test_rare_values_have_no_function_but_rare_classes_do() -> None:
    column, block = SCHEMA["a"], TableEncoder(SCHEMA).layout.blocks[0]
    p = np.array([0.6, 0.399, 0.001])
    assert functions_of(column, block, p, 9).shape[1] == 1
    assert functions_of(column, block, p, 9, LEAST_NORM_OF_LABEL).shape[1] == 2


def test_means_of_all_products_are_the_two_way_marginals() -> None:
    """Lancaster's expansion, whole: from the means of ψ back to every pair's table."""
    index = np.concatenate(
        [table(500), np.stack(np.unravel_index(np.arange(192), (3, 8, 4, 2)), 1)]
    )
    for encoding in ENCODINGS:
        created, codes = features(index, encoding=encoding)
        counts = [np.bincount(c, minlength=s) for c, s in zip(index.T, SCHEMA.sizes, strict=True)]
        created.marginals = [c / c.sum() for c in counts]
        result = created.second_moments(created(codes).double().mean(0))
        # The functions are of slightly smoothed shares, and only one-hot codes have all of them.
        tolerance = 0.01 if encoding == "one-hot" else 0.2
        torch.testing.assert_close(
            result, second_moments(created.layout, codes), atol=tolerance, rtol=0
        )


def test_fewer_features_of_a_wide_table() -> None:
    index = table(40)
    created, _ = features(index, per_column=5, most=12)
    assert len(created) <= 12 and created.groups == 6
    some, _ = features(index, per_column=1, most=3)
    assert len(some) == some.groups == 3
    kept, _ = features(index, per_column=1, most=2, label=3)
    assert kept.with_label.sum() == 3


def reference(
    index: np.ndarray, shard: Tensor, count: int
) -> tuple[PairFeatures, Tensor, MarginalTeachers]:
    created, codes = features(index, 3)
    return created, codes, MarginalTeachers.of(codes, shard, count, created)


def test_teachers_are_means_of_their_shards_and_votes_their_signs() -> None:
    """Against a loop over teachers and rows, in float64."""
    index, count = table(90), 7
    shard = torch.randint(count - 1, (90,), generator=torch.Generator().manual_seed(1))
    created, codes, teachers = reference(index, shard, count)  # the last has no record
    psi = created(codes).double()
    centre = psi.mean(0) + 0.1
    requested = psi[:30] - centre
    half = torch.arange(len(created)) < len(created) // 2
    scale = torch.rand(30, 2, generator=torch.Generator().manual_seed(2)).double() + 0.5
    yes = torch.zeros(30, dtype=torch.int64)
    for k in range(count):
        own = psi[shard == k]
        if not len(own):  # who knows nothing takes turns
            yes += torch.arange(k, k + 30) % 2
            continue
        weight = own.mean(0) - centre
        for r in range(30):
            scores = [
                float(weight[h] @ requested[r][h]) * float(s)
                for h, s in zip((half, ~half), scale[r], strict=True)
            ]
            yes[r] += all(score > -0.2 for score in scores)
    result = teachers.yes(requested.float(), centre.float(), [half, ~half], scale.float(), -0.2)
    assert torch.equal(result, yes)


class RoundedByPlace(PairFeatures):
    """Features of which a product of matrices rounds each row by its place and by the number of rows."""

    def __call__(self, codes: Tensor) -> Tensor:
        places = torch.arange(len(codes))[:, None] + len(codes)
        return super().__call__(codes) * (1 + 1e-6 * (places % 7))


def dense(width: int, functions: int) -> PairFeatures:
    """Features of which every function goes by every code, with weights of all sizes."""
    created, _ = features(table(10), 3)
    created.__class__ = RoundedByPlace
    draw = torch.Generator().manual_seed(width)
    created._weights = torch.randn(width, functions, generator=draw)
    created._constants = torch.randn(functions, generator=draw)
    created._terms = [(code, 0, functions) for code in range(width)]
    first, second = torch.triu_indices(functions, functions, 1)
    created._first, created._second, created.group = first, second, torch.zeros(len(first))
    return created


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("width", "functions"), [(3, 2), (16, 9), (37, 9), (259, 9), (37, 40)])
def test_dense_codes_leave_other_teachers_as_they_were(
    width: int, functions: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R15 without help of zeros in the codes: a record anywhere, of any size, changes its own teacher alone.

    The numbers of functions and of codes are some at which a product of matrices rounds by place.
    """
    before, draw = torch.get_num_threads(), torch.Generator().manual_seed(2)
    monkeypatch.setattr(pate_features, "CHUNK", 512)
    created = dense(width, functions)
    codes = torch.rand(1100, width, generator=draw) * 10 ** (
        4 * torch.rand(1100, 1, generator=draw) - 2
    )
    shard = torch.randint(50, (1100,), generator=draw)
    try:
        torch.set_num_threads(threads)
        whole = MarginalTeachers.of(codes, shard, 50, created).means
        exact = (codes[:99].double() @ created._weights.double()) + created._constants.double()
        exact = exact[:, created._first] * exact[:, created._second]
        result = created.of_rows(codes[:99]).double()
        torch.testing.assert_close(result, exact, rtol=1e-3, atol=1e-4 * float(exact.abs().max()))
        for place in (0, 5, 510, 1099):
            kept = torch.arange(len(codes)) != place
            fewer = MarginalTeachers.of(codes[kept], shard[kept], 50, created).means
            changed = torch.nonzero((whole != fewer).any(1)).flatten().tolist()
            assert changed == [int(shard[place])]
        # In another order, on another number of threads: the same numbers, to the bit.
        torch.set_num_threads(3 - threads)
        order = torch.randperm(len(codes), generator=draw)
        assert torch.equal(
            MarginalTeachers.of(codes[order], shard[order], 50, created).means, whole
        )
    finally:
        torch.set_num_threads(before)


def test_extreme_features_stay_with_their_own_teacher() -> None:
    """A record whose features pass the limit is cut; sums never become infinite or NaN for others."""
    created = dense(8, 9)
    codes = torch.rand(40, 8, generator=torch.Generator().manual_seed(3))
    shard = torch.arange(40) % 4
    whole = MarginalTeachers.of(codes, shard, 4, created).means
    for size in (1e6, 1e18, -1e18):
        more = torch.cat([torch.full((1, 8), size), codes])
        result = MarginalTeachers.of(more, torch.cat([torch.tensor([2]), shard]), 4, created).means
        assert torch.isfinite(result).all()
        assert torch.nonzero((result != whole).any(1)).flatten().tolist() == [2]


def test_the_students_slope_is_that_of_its_likelihood() -> None:
    """Fisher's slope against automatic differentiation, one head or two, and thresholds."""
    created, codes = features(table(60), 2, label=0)
    draw = torch.Generator().manual_seed(4)
    for heads in ([~created.with_label, created.with_label], [created.with_label]):
        student = Student(created, heads)
        student.means = 0.2 * torch.randn(len(created), generator=draw)
        answers = Answers(
            codes=codes,
            yes=torch.rand(60, generator=draw) < 0.5,
            centre=0.1 * torch.randn(len(created), generator=draw),
            scale=0.3 + 0.2 * torch.rand(60, len(heads), generator=draw),
            ratio=3.0,
            least=-0.3,
        )
        information, slope = student._information(answers)
        means = student.means.double().requires_grad_()
        rows = (created(codes) - answers.centre).double()
        share = torch.ones(60, dtype=torch.float64)
        for h, head in enumerate(heads):
            z = (rows * head) @ (means - answers.centre.double())
            share = share * torch.special.ndtr(z * answers.scale[:, h] + 0.3)
        p = torch.special.ndtr((share - 0.5) * 3.0)
        likelihood = torch.where(answers.yes, p, 1 - p).log().sum()
        (wanted,) = torch.autograd.grad(likelihood, means)
        torch.testing.assert_close(slope.double(), wanted, rtol=2e-3, atol=2e-3)
        assert torch.linalg.eigvalsh(information).min() > -1e-3


def test_the_student_finds_the_means_that_votes_are_about() -> None:
    """Votes of made-up teachers at a known θ: found to the precision that so many answers give."""
    created, codes = features(table(4000), 2)
    truth, centre = created(codes).mean(0), torch.zeros(len(created))
    shuffled = np.stack(
        [np.random.default_rng(j).permutation(c) for j, c in enumerate(table(4000).T)], 1
    )
    requested = features(shuffled, 2)[1]
    teachers = 400
    psi = created(requested)
    spread = psi.T @ psi / len(psi)
    scale = (10 / ((psi @ spread) * psi).sum(1)).sqrt()[:, None]
    share = torch.special.ndtr((psi @ truth) * scale[:, 0])
    draw = torch.Generator().manual_seed(1)
    counts = share * teachers + 60 * torch.randn(len(psi), generator=draw)
    student = Student(created, [torch.ones(len(created), dtype=torch.bool)])
    student.answers.append(
        Answers(
            codes=requested,
            yes=counts > teachers / 2,
            centre=centre,
            scale=scale,
            ratio=teachers / 60,
        )
    )
    student.learn()
    assert (student.means - truth).norm() < 0.25 * truth.norm()
    assert torch.cosine_similarity(student.means, truth, 0) > 0.95
    second = Student(created, student.heads)
    second.load_state_dict(student.state_dict())
    second.learn()
    student.learn()
    torch.testing.assert_close(second.means, student.means)
    # Nothing was answered: the student keeps to what it expected.
    silent = Student(created, student.heads)
    silent.prior = silent.means = truth.clone()
    silent.learn()
    torch.testing.assert_close(silent.means, truth)
