"""The Adam of small fits."""

import torch

from tabsynth.training.networks import Adam


def test_steps_are_those_of_torch() -> None:
    """Also after the state was saved and loaded."""
    rng = torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=rng) for shape in ((5, 3), (3,))]
    theirs = [p.clone().requires_grad_() for p in ours]
    adam, reference = Adam(ours), torch.optim.Adam(theirs, fused=True)
    for i in range(6):
        gradients = [torch.randn(p.shape, generator=rng) for p in ours]
        for p, gradient in zip(theirs, gradients, strict=True):
            p.grad = gradient
        reference.param_groups[0]["lr"] = rate = 0.1 / (i + 1)
        reference.step()
        adam.step(gradients, rate)
        if i == 2:
            state, adam = adam.state_dict(), Adam(ours)
            adam.load_state_dict(state)
        for p, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(p, expected.detach(), rtol=0, atol=0)
