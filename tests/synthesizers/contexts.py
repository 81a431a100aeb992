"""The context of a training on a table of codes, for tests of the trainers."""

from typing import Any

import torch
from torch import Tensor

from tabsynth._random import keystream
from tabsynth.privacy.ledger.ledger import Account, Ledger, PrivateTable
from tabsynth.synthesizers.adversarial.generator import Streams, TrainingContext
from tabsynth.training.loop import TrainingMonitor


def streams_of(private: torch.Generator, public: torch.Generator) -> Streams:
    """Return streams whose noise follows from the private one."""
    bits = keystream(private)
    return Streams(init=public, private=private, public=public, coder_noise=bits, noise=bits)


def context_of(
    codes: Tensor,
    account: Account | None,
    ledger: Ledger,
    rows: float,
    *,
    seeds: tuple[int, int] = (2, 3),
    **settings: Any,
) -> TrainingContext:
    """Return a context with one account; ``seeds`` are of the private stream and of the public one."""
    private, public = (torch.Generator(codes.device).manual_seed(seed) for seed in seeds)
    given = {"streams": streams_of(private, public), "monitor": TrainingMonitor(), **settings}
    accounts = {} if account is None else {account.purpose: account}
    return TrainingContext(table=PrivateTable(codes, ledger), accounts=accounts, rows=rows, **given)
