"""tabsynth as a plug-in of synthcity.

>>> from synthcity.plugins import Plugins                            # doctest: +SKIP
>>> from tabsynth.integrations.synthcity import TabsynthPlugin       # doctest: +SKIP
>>> generators = Plugins()                                           # doctest: +SKIP
>>> generators.add("tabsynth", TabsynthPlugin)                       # doctest: +SKIP
>>> generators.get("tabsynth", epsilon=1.0).fit(loader).generate(100)  # doctest: +SKIP

The plug-in runs the command line of tabsynth in a process of its own, because both packages have no common versions of
numpy and torch: synthcity 0.2.12 needs numpy 1 and torch 2.2, tabsynth needs numpy 2 and torch 2.6. The command may
therefore be that of another environment. In synthcity's environment tabsynth is installed without its dependencies, and
needs pandas, pyarrow and narwhals there.

synthcity stores histograms and the exact number of rows of the real table in a plug-in, and drops synthetic rows outside of the
real extremes. Neither is covered by a privacy budget, so this plug-in does neither.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from synthcity.plugins.core.dataloader import (
    DataLoader,
    GenericDataLoader,
    create_from_info,
)
from synthcity.plugins.core.plugin import Plugin

from tabsynth._validate import integer, positive, shown
from tabsynth.errors import InputError
from tabsynth.integrations.columns import Columns
from tabsynth.schema.schema import Schema

TABULAR = ("generic", "survival_analysis")  # types of data that are one row for each record


class TabsynthPlugin(Plugin):
    """A differentially private synthesizer of tabsynth for synthcity.

    Parameters
    ----------
    epsilon, delta : float
        The budget of each fit.
    method : str
        As ``tabsynth fit --method``.
    schema : Schema, dict or path, optional
        Default: drafted privately, as a part of the budget.
    command : sequence of str, optional
        How to run tabsynth, such as ``["/path/to/environment/bin/tabsynth"]``. Default: in this environment.
    options : sequence of str
        Further options of ``tabsynth fit``, such as ``["--time-limit", "5m"]``.
    **settings
        Of every plug-in. ``random_state`` seeds what synthcity draws, and samples; the noise of a fit is never seeded.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: str = "margnet",
        schema: Schema | Mapping[str, Any] | str | Path | None = None,
        command: Sequence[str] | None = None,
        options: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        positive("epsilon", epsilon)
        self.epsilon, self.delta, self.method, self.table_schema = epsilon, delta, method, schema
        self.command = [sys.executable, "-m", "tabsynth"] if command is None else [*command]
        self.options = [*options]

    @staticmethod
    def name() -> str:
        """The name of the plug-in."""
        return "tabsynth"

    @staticmethod
    def type() -> str:
        """Its category."""
        return "privacy"

    @staticmethod
    def hyperparameter_space(**kwargs: Any) -> list[Any]:
        """Nothing is tuned: each trial would be a fit that costs ε again."""
        return []

    def fit(self, X: Any, *args: Any, **kwargs: Any) -> "TabsynthPlugin":
        """Fit a table of synthcity, or a DataFrame.

        Raises
        ------
        InputError
            In one line, for a table that the schema refuses, for data that is no table of one row for each record, and
            for a training condition.
        """
        if kwargs.get("cond") is not None or args:
            raise InputError("tabsynth takes no training condition; leave out cond.")
        loader = GenericDataLoader(X) if isinstance(X, pd.DataFrame) else X
        if not isinstance(loader, DataLoader) or loader.type() not in TABULAR:
            kind = loader.type() if isinstance(loader, DataLoader) else shown(X)
            raise InputError(f"tabsynth fits data of type {' or '.join(TABULAR)}, not {kind}.")
        self._fit(loader)
        self.data_info = {**loader.info(), "len": None}
        self.fitted = True
        return self

    def _fit(self, X: Any, *args: Any, **kwargs: Any) -> "TabsynthPlugin":
        table = X.dataframe()
        schema = _schema(self.table_schema)
        if schema is None:
            columns = Columns.of(table)
        else:
            declared = {*schema.names, *schema.design.names}
            columns = Columns.of(table, [str(c) for c in table.columns if c not in declared])
        with tempfile.TemporaryDirectory(prefix="tabsynth-") as name:  # of this user alone
            folder = Path(name)
            _write(table[columns.learned], folder / "table.parquet")
            words = ["fit", "table.parquet", "-o", "model", "--method", self.method]
            words += [f"--epsilon={self.epsilon!r}", f"--delta={self.delta!r}", *self.options]
            if schema is not None:
                schema.save(folder / "schema.json")
                words += ["--schema", "schema.json"]
            self._run(words, folder)
            self.model_file = (folder / "model").read_bytes()
        self.columns = columns
        return self

    def generate(
        self,
        count: int | None = None,
        constraints: Any = None,
        random_state: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Draw rows as a table of synthcity.

        Parameters
        ----------
        count : int, optional
            Default: the number of rows that the fit released with noise.
        constraints : Constraints, optional
            Rows that break them are dropped, and others drawn in their place, at most ``sampling_patience`` times. Only
            constraints that are public keep the privacy claim.
        random_state : int, optional
            The same rows for the same number.

        Raises
        ------
        InputError
            Before a fit, for a condition, and if too few rows satisfy the constraints.
        """
        if not self.fitted:
            raise InputError("The plug-in is not fitted; call fit first.")
        if kwargs.get("cond") is not None:
            raise InputError("tabsynth takes no condition here; use constraints.")
        if count is not None:
            integer("count", count)
        rows = self._sample(count, random_state)
        wanted = len(rows)
        if constraints is not None:
            parts = [_matching(rows, constraints)]
            for trial in range(self.sampling_patience):
                if sum(map(len, parts)) >= wanted:
                    break
                seed = None if random_state is None else random_state + trial + 1
                parts.append(_matching(self._sample(wanted, seed), constraints))
            rows = pd.concat(parts, ignore_index=True).head(wanted)
            if len(rows) < wanted:
                raise InputError(
                    f"Only {len(rows)} of {wanted} rows satisfy the constraints after {self.sampling_patience} draws; relax"
                    " them."
                )
        return create_from_info(rows, self.data_info)

    def _generate(self, count: int, syn_schema: Any, **kwargs: Any) -> Any:
        return self.generate(count, **kwargs)

    def schema(self) -> Any:
        """Refused: a schema of synthcity holds histograms of the real table."""
        raise InputError(
            "tabsynth stores no histogram of the real table, which synthcity's schema holds."
        )

    training_schema = schema

    def certificate(self) -> dict[str, Any]:
        """The privacy certificate of the fit, of a sample of one row."""
        with tempfile.TemporaryDirectory(prefix="tabsynth-") as name:
            folder = self._drawn(Path(name), 1, None)
            found: dict[str, Any] = json.loads(
                (folder / "sample.parquet.certificate.json").read_text("utf-8")
            )
        return found

    def _sample(self, count: int | None, random_state: int | None) -> pd.DataFrame:
        with tempfile.TemporaryDirectory(prefix="tabsynth-") as name:
            folder = self._drawn(Path(name), count, random_state)
            rows = pd.read_parquet(folder / "sample.parquet")
        return self.columns.complete(rows)

    def _drawn(self, folder: Path, count: int | None, random_state: int | None) -> Path:
        """A folder with a sample and its certificate."""
        (folder / "model").write_bytes(self.model_file)
        words = ["sample", "model", "-o", "sample.parquet"]
        words += [] if count is None else ["-n", str(count)]
        words += [] if random_state is None else ["--seed", str(random_state)]
        self._run(words, folder)
        return folder

    def _run(self, words: Sequence[str], folder: Path) -> None:
        """Run the command line; its one line of an error is that of this call.

        Raises
        ------
        InputError
        """
        command = [*self.command, *words]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise InputError(f"{self.command[0]} cannot be run: {error.strerror}.") from None
        if done.returncode:
            raise InputError(_reason(done.stderr, self.command))


def _reason(stderr: str, command: Sequence[str]) -> str:
    """The first problem that the command line reports, in one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    if not errors:
        return f"{' '.join(command)} failed: {lines[-1] if lines else 'it wrote no error'}"
    text = lines[errors[0]].removeprefix("error: ")
    listed = [line.removeprefix("- ") for line in lines[errors[0] + 1 :] if line.startswith("- ")]
    return f"{text} {listed[0]}" if listed else text


def _schema(given: Any) -> Schema | None:
    if given is None or isinstance(given, Schema):
        return given
    return Schema.from_dict(given) if isinstance(given, Mapping) else Schema.load(given)


def _write(table: pd.DataFrame, path: Path) -> None:
    """A table as Parquet, with the types of its columns."""
    try:
        table.to_parquet(path, index=False)
    except (TypeError, ValueError) as error:  # of pyarrow, which names the column
        raise InputError(
            f"The table cannot be written for tabsynth: {' '.join(map(str, error.args))}"
        ) from None


def _matching(rows: pd.DataFrame, constraints: Any) -> pd.DataFrame:
    matching: pd.DataFrame = constraints.match(rows)
    return matching
