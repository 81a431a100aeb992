"""L-BFGS of whole functions."""

import math
from itertools import pairwise

import torch

from tabsynth.training.networks import LBFGS


def rosenbrock(x: torch.Tensor) -> torch.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def value_and_slope(x: torch.Tensor) -> tuple[float, torch.Tensor]:
    point = x.detach().requires_grad_()
    value = rosenbrock(point)
    (slope,) = torch.autograd.grad(value, point)
    return float(value.detach()), slope


def test_it_finds_the_least_value() -> None:
    """Of a curved valley, whose least value 0 is where all are 1; the point is never of a larger value than before."""
    point = torch.full((6,), -1.0, dtype=torch.float64)
    optimizer, values = LBFGS(point), list[float]()
    for _ in range(200):
        optimizer.step(*value_and_slope(optimizer.trial))
        values.append(float(rosenbrock(point)))
    assert all(after <= before for before, after in pairwise(values))
    torch.testing.assert_close(point, torch.ones_like(point), rtol=0, atol=1e-6)


def test_a_quadratic_function_takes_about_as_many_steps_as_it_has_curvatures() -> None:
    """Five curvatures from 1 to 10,000: gradient descent would take thousands of steps."""
    curvature = torch.logspace(0, 4, 5, dtype=torch.float64)
    point = torch.ones(5, dtype=torch.float64)
    optimizer = LBFGS(point)
    for _ in range(40):
        x = optimizer.trial
        optimizer.step(float((curvature * x**2).sum() / 2), curvature * x)
    assert float(point.abs().max()) < 1e-6


def test_a_step_is_shortened_until_the_value_falls() -> None:
    """Also where it is no number; the point stays where it is till then."""
    point = torch.tensor([1.0, -2.0])
    optimizer = LBFGS(point)
    optimizer.step(*value_and_slope(optimizer.trial))
    first = optimizer.trial - point
    for value in (math.nan, math.inf, 1e9, float(rosenbrock(point)) + 1e-3):
        before = optimizer.trial - point
        optimizer.step(value, torch.full((2,), math.nan))
        shortened = (optimizer.trial - point).norm() / before.norm()
        assert torch.equal(point, torch.tensor([1.0, -2.0])) and 0.09 < shortened < 0.51
        torch.testing.assert_close(optimizer.trial - point, optimizer.length * first)
    trial = optimizer.trial.clone()
    optimizer.step(*value_and_slope(optimizer.trial))
    assert torch.equal(point, trial)


def test_another_function_begins_at_the_point() -> None:
    """Its value may be larger, and the moves are kept."""
    point = torch.tensor([1.5, -1.0])
    optimizer = LBFGS(point)
    for _ in range(8):
        optimizer.step(*value_and_slope(optimizer.trial))
    moves = len(optimizer.moves)
    optimizer.change_function()
    assert torch.equal(optimizer.trial, point)
    value, slope = value_and_slope(point)
    optimizer.step(value + 5, slope)
    assert optimizer.value == value + 5 and len(optimizer.moves) == moves > 0
    # A move and its change of the gradient are of one function.
    move, change = optimizer.moves[-1], optimizer.changes[-1]
    assert float(move @ change) > 0


def test_it_goes_on_from_its_state() -> None:
    """To the bit, from within a line search as well."""
    point = torch.tensor([-1.2, 1.0, 0.3])
    optimizer = LBFGS(point)
    for stop in range(30):
        copy = point.clone()
        second = LBFGS(copy)
        second.load_state_dict(optimizer.state_dict())
        for each in (optimizer, second):
            each.step(*value_and_slope(each.trial))
        assert torch.equal(optimizer.trial, second.trial) and torch.equal(point, copy), stop
