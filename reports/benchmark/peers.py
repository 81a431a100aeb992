"""One fit of a peer, in the environment that runner.py makes for its package: the only file here that imports one.

    python peers.py METHOD FOLDER EPSILON DELTA SEED LIMIT OUT [OPTIONS]

METHOD is a key of ``METHODS``. FOLDER holds the private rows as category codes (train.csv) and the public sizes (sizes.json);
LIMIT is in CPU seconds. OPTIONS are further arguments of the method, as JSON.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from limits import limit_cpu


def of_dpmm(
    method: str,
    rows: pd.DataFrame,
    sizes: Mapping[str, int],
    epsilon: float,
    delta: float,
    seed: int,
    options: Mapping[str, Any],
) -> Callable[[], pd.DataFrame]:
    """Fit a pipeline of dpmm."""
    from dpmm.pipelines import PIPELINE_DICT

    pipeline = PIPELINE_DICT[method](
        epsilon=epsilon, delta=delta, n_jobs=1, disable_processing=True, **options
    )
    pipeline.fit(rows, domain=dict(sizes), random_state=seed)
    return lambda: pipeline.generate(n_records=len(rows))


def of_dpsynth(
    rows: pd.DataFrame,
    sizes: Mapping[str, int],
    epsilon: float,
    delta: float,
    seed: int,
    options: Mapping[str, Any],
) -> Callable[[], pd.DataFrame]:
    """Fit SWIFT of google/dpsynth, which draws as many rows as its noisy count says."""
    import dpsynth

    columns = {
        name: dpsynth.CategoricalAttribute(possible_values=list(range(size)))
        for name, size in sizes.items()
    }
    swift = dpsynth.discrete_mechanisms.SWIFTConfig(**options)
    config = dpsynth.TabularConfig(domains=columns, discrete_mechanism=swift)
    fit = config.calibrate(epsilon=epsilon, delta=delta)
    result = fit(np.random.default_rng(seed), rows)
    return lambda: result.synthetic_data


METHODS = {
    "mst": partial(of_dpmm, "mst"),
    "aim": partial(of_dpmm, "aim"),
    "swift": of_dpsynth,
}


def main(
    method: str,
    folder: str,
    epsilon: str,
    delta: str,
    seed: str,
    limit: str,
    out: str,
    options: str = "{}",
) -> dict[str, float]:
    """Fit one peer on one table and return the cost."""
    limit_cpu(int(limit))
    rows = pd.read_csv(Path(folder) / "train.csv")
    sizes = json.loads((Path(folder) / "sizes.json").read_text())
    started, cpu = time.perf_counter(), time.process_time()
    draw = METHODS[method](
        rows, sizes, float(epsilon), float(delta), int(seed), json.loads(options)
    )
    results = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    draw()[list(sizes)].to_csv(out, index=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**results, "peak_mib": peak}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
