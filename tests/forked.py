"""Processes of their own without the seconds that it takes to import torch and the rest."""

import multiprocessing

# They fork from one process that has imported these. It starts with the first of them, so the list is made here.
IMPORTED = """
tabsynth.synthesizers tabsynth.cli.commands tabsynth.evaluation tabsynth.report tabsynth.auditing tabsynth.planning
tabsynth.privacy.certificate.verification opacus.accountants opacus.grad_sample torch._dynamo scipy.stats scipy.integrate
sklearn.linear_model sklearn.ensemble sklearn.metrics pyarrow.parquet matplotlib.pyplot
"""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(IMPORTED.split())
