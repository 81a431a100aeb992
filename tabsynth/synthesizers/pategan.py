"""PATEGAN: a generator that learns from the noisy votes of teachers on disjoint shards."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tabsynth.autoencoder import AutoencoderConfig
from tabsynth.generators.pate_config import PATEConfig
from tabsynth.schema import Schema
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.synthesizers.voting import Voting


class PATEGAN(Voting):
    """PATE-GAN (Jordon, Yoon, van der Schaar 2019), for tables.

    None of six public implementations of PATE-GAN is as private as it claims, and none reproduces the
    utility of the paper (Ganev et al. 2024: 19 privacy violations). This one is checked by record and
    replay. Its preset ``paper`` does not reproduce the paper's utility either: without noise it nears
    independent columns, and at ε = 8 its labels are random (reports/pate). ``default`` changes teachers,
    student and generator's loss, and does better, though not as well as :class:`tabsynth.MargNet`.

    Parameters
    ----------
    schema : Schema
        The public facts of the table.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    preset : {"default", "paper"}
        ``default``: :mod:`tabsynth.generators.pate_witness`. ``paper``: networks, Laplace noise on both
        counts with its data-independent bound, and a generator step after each round.
    teachers : int, optional
        K, public. By default what the planner recommends for ``rows`` and the budget (``paper``: one for
        each thousand rows); where ``rows`` is not declared, for 20,000 rows. It never follows from the
        private number of rows (R14).
    labels : int, optional
        Questions in all, public; the noise of their answers follows from it and from the budget.
    autoencoder : {None, "dp-sgd", "public", "no-noise", "preset"}
        As in :class:`tabsynth.DPWGAN`; the generator then ends in its decoder.
    public, provenance, overlap, warm_start : optional
        Tables that cost nothing, as in :class:`tabsynth.DPWGAN`: what the student expects at first.
    encoding, rows, time_limit, accept_drafted_domain, random_state, device, verbose
        As in :class:`tabsynth.DPWGAN`; the time limit is looked at between steps, and a round of questions,
        with its teachers and its student, is one.
    pate_config, autoencoder_config : optional
        In place of the preset's.

    Formal guarantees
    -----------------
    Each record is in the shard of one of K teachers, by a coin of its own, for life. Private rows are read
    by noisy one-way counts (or a noisy row count), by the autoencoder's steps if there are any, and under
    the account of the votes: each is 1[n₁ + noise > K/2], and adding or removing one record changes one
    teacher, hence n₁ by at most 1 (:class:`tabsynth.privacy.mechanisms.NoisyVote`). Uses are written off
    before teachers see a row; clean votes and teachers never leave the fit. Student, generator, samples
    and model file are post-processing. The accounting is independent of the data.
    """

    method: ClassVar[str] = "pate-gan"
    choices = ("preset", "labels", "teachers")

    def __init__(
        self,
        schema: Schema,
        *,
        epsilon: float,
        delta: float = 1e-5,
        preset: str = "default",
        teachers: int | None = None,
        labels: int | None = None,
        autoencoder: str | None = None,
        public: Any = None,
        provenance: str | None = None,
        overlap: str = "declined",
        warm_start: Synthesizer | None = None,
        encoding: str | Mapping[str, str] = "one-hot",
        rows: int | None = None,
        time_limit: float | None = None,
        accept_drafted_domain: bool = False,
        random_state: int | None = None,
        device: str = "auto",
        verbose: bool = False,
        pate_config: PATEConfig | None = None,
        autoencoder_config: AutoencoderConfig | None = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.preset = preset
        self.teachers = teachers
        self.labels = labels
        self.autoencoder = autoencoder
        self.public = public
        self.provenance = provenance
        self.overlap = overlap
        self.warm_start = warm_start
        self.encoding = encoding
        self.rows = rows
        self.time_limit = time_limit
        self.accept_drafted_domain = accept_drafted_domain
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        self.pate_config = pate_config
        self.autoencoder_config = autoencoder_config

    def _starts_from_marginals(self) -> bool:
        return self.preset != "paper" or self._preset_config().kind == "witness"
