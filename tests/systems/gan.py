"""The systems of DP-WGAN and DP-GAN, and what those of PATE share with them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from systems.form import Parameters, Request, Systems, draw_rows, with_unit, with_weight
from tabsynth.auditing.fixtures.gan import TINY, TINY_CODER
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.adversarial.autoencoder import AutoencoderConfig, source_autoencoder
from tabsynth.synthesizers.adversarial.critic import WGANConfig
from tabsynth.synthesizers.adversarial.dpgan import VARIANTS
from tabsynth.synthesizers.adversarial.dpwgan import source_wgan
from tabsynth.synthesizers.method import with_settings
from tabsynth.training.private_step import StepConfig


class CriticOfTheBatch(nn.Module):
    """A critic that would score a row by all rows of a batch, if it saw more than one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, 2, 3, padding=1)
        self.last = nn.Linear(2 * width, 1)

    def forward(self, rows: Tensor) -> Tensor:
        centred = rows - rows.mean(0) / 2
        return self.last(torch.tanh(self.convolution(centred[:, None])).flatten(1)).squeeze(1)


PUBLIC_ROWS = 25  # rows of the public table
FULL_BATCHES_GENERATOR: dict[str, Any] = {
    "generator__latent_dim": 8,
    "generator__hidden": (16,),
}
# On the whole table, so that a closed form checks the accountant.
_FULL_BATCHES = {
    **FULL_BATCHES_GENERATOR,
    "critic__hidden": (16,),
    "step__count": 40,
    "step__sampling_rate": 1.0,
}
PUBLIC = {"autoencoder": "public", "public": True}
OF_COUNTS = {"autoencoder": "counts"}
BY_COLUMN = {"network_encoding": ("gray", "rank-hot", "helmert", "sum")}

# Options: "config" and "coder" change the tiny configurations, "base" and "base_coder" are the ones to start from,
# several network encodings are of the columns one after the other, "public" asks for a made-up public table, "unit" is the most rows of a unit, and "weight" the largest weight. All others
# are parameters.
WGAN_OPTIONS: dict[str, Mapping[str, Any]] = {
    "dp-wgan": {},
    # Under a bound that rows reach: that of the preset cuts nothing, and a replay would not see whether it holds.
    "dp-wgan, source": {
        "preset": "source",
        "base": source_wgan(60),
        "base_coder": source_autoencoder(60),
        "config": {"clipping__max_norm": 0.05},
    },
    "dp-wgan, no autoencoder": {"autoencoder": None},
    "dp-wgan, autoencoder by DP-SGD": {"autoencoder": "dp-sgd"},
    "dp-wgan, public autoencoder": PUBLIC,
    "dp-wgan, a critic of the user's own": {
        "critic": CriticOfTheBatch,
        "config": {"clipping__max_norm": 0.05},
    },
    "dp-wgan, rows declared": {"rows": 500},
    "dp-wgan, binary codes": {"network_encoding": "binary"},
    "dp-wgan, ordinal codes": {"network_encoding": "ordinal"},
    "dp-wgan, base-3 codes": {"network_encoding": "base-3"},
    "dp-wgan, codes by column": BY_COLUMN,
    "dp-wgan, bam and dp-sat": {
        "config": {"step__rule": "bam"},
        "coder": {"step__rule": "dp-sat"},
    },
    "dp-wgan, public autoencoder, dp-sat": {**PUBLIC, "step_rule": "dp-sat"},
    "dp-wgan, unit": {"unit": 3},
    "dp-wgan, unit, public autoencoder, bam": {
        **PUBLIC,
        **{
            "unit": 2,
            "step_rule": "bam",
            "config": {"clipping__max_norm": 0.05},
        },
    },
    "dp-wgan, weights": {"weight": 30.0, "config": {"clipping__max_norm": 0.05}},
    "dp-wgan, weights of units": {"weight": 2.0, "unit": 2},
}
GAN_OPTIONS: dict[str, Mapping[str, Any]] = {
    "dp-gan": {},
    "dp-gan, basic": {"variant": "basic"},
    "dp-gan, ganobfuscator": {"variant": "ganobfuscator"},
    "dp-gan, autoencoder": {"autoencoder": "dp-sgd"},
    "dp-gan, autoencoder of counts, unit": {**OF_COUNTS, "unit": 2},
    "dp-gan, rows declared": {"rows": 500},
    "dp-gan, bam": {"step_rule": "bam"},
    "dp-gan, basic by bam": {"variant": "basic", "step_rule": "bam"},
    "dp-gan, dp-sat": {"step_rule": "dp-sat"},
    "dp-gan, public table": {"public": True},
    "dp-gan, binary codes": {"network_encoding": "binary"},
    "dp-gan, ordinal codes": {"network_encoding": "ordinal"},
    "dp-gan, base-3 codes, public autoencoder": {**PUBLIC, "network_encoding": "base-3"},
    "dp-gan, codes by column": BY_COLUMN,
    "dp-gan, unit": {"unit": 2},
    "dp-gan, unit, basic": {"unit": 3, "variant": "basic"},
    # Of the variant's configuration: neither counts nor a generator that starts from them.
    "dp-gan, weights, basic": {
        **{"weight": 1.5, "variant": "basic", "config": {"start_from_counts": False}},
    },
}


def make_tiny(
    options: Mapping[str, Any],
    request: Request,
    *,
    start: Callable[[Mapping[str, Any]], Any],
    changes: Mapping[str, Any] = TINY,
) -> tuple[Schema, Parameters]:
    """Return the parameters of a system of a GAN.

    Parameters
    ----------
    start : callable
        From the options to the configuration that ``changes`` make tiny, where the options have no "base".
    """
    given, schema = dict(options), request.schema
    if "unit" in given:
        schema = with_unit(schema, given.pop("unit"))
    if "weight" in given:
        schema = with_weight(schema, given.pop("weight"))
    if isinstance(schemes := given.get("network_encoding"), tuple):
        given["network_encoding"] = dict(zip(schema.learned.names, schemes, strict=False))
    changed = {**changes, **given.pop("config", {})}
    given["config"] = with_settings(given.pop("base", None) or start(options), **changed)
    coder = given.pop("base_coder", None) or AutoencoderConfig()
    given["autoencoder_config"] = with_settings(coder, **{**TINY_CODER, **given.pop("coder", {})})
    if given.pop("public", False):
        given["public"] = draw_rows(schema, PUBLIC_ROWS, 1)
        given["public_source"] = "made up for a replay"
    return schema, given


def _full_batches_wgan(schema: Schema) -> Parameters:
    step = StepConfig(count=16, sampling_rate=1.0)
    coder = AutoencoderConfig(hidden=(12,), latent_dim=6, step=step)
    config = with_settings(WGANConfig(), **_FULL_BATCHES)
    return {"autoencoder": "dp-sgd", "config": config, "autoencoder_config": coder}


def _variant(options: Mapping[str, Any]) -> Any:
    return VARIANTS[options.get("variant", "advanced")]


SYSTEMS = {
    "dp-wgan": Systems(
        options=WGAN_OPTIONS,
        tiny=partial(make_tiny, start=lambda options: WGANConfig()),
        full_batches=_full_batches_wgan,
        charges=57,
    ),
    "dp-gan": Systems(
        options=GAN_OPTIONS,
        tiny=partial(make_tiny, start=_variant),
        full_batches=lambda schema: {
            "config": with_settings(VARIANTS["advanced"], **_FULL_BATCHES)
        },
        charges=41,
    ),
}
