"""One fit of a peer, in the environment that runner.py makes for it: the only file here that imports it.

    python peers.py METHOD FOLDER EPSILON DELTA SEED LIMIT OUT [OPTIONS]

FOLDER holds the private rows as value numbers (train.csv) and the public sizes (sizes.json);
LIMIT is in CPU seconds. OPTIONS are further arguments of the method, as JSON.
"""

import json
import resource
import sys
import time
from pathlib import Path

import pandas as pd
from dpmm.pipelines import PIPELINE_DICT
from limits import limit_cpu


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
    limit_cpu(int(limit))
    rows = pd.read_csv(Path(folder) / "train.csv")
    sizes = json.loads((Path(folder) / "sizes.json").read_text())
    started, cpu = time.perf_counter(), time.process_time()
    pipeline = PIPELINE_DICT[method](
        epsilon=float(epsilon),
        delta=float(delta),
        n_jobs=1,
        disable_processing=True,
        **json.loads(options),
    )
    pipeline.fit(rows, domain=sizes, random_state=int(seed))
    results = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    pipeline.generate(n_records=len(rows)).to_csv(out, index=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**results, "peak_mib": peak}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
