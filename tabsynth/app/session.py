"""The steps of one preparation: a table, its schema, a plan, a fit, a report and a release. It knows no page.

What the page does is done here, by the public functions of the library. No method gives out anything that follows from
the rows of the table before a person has confirmed that the screen is confidential (:meth:`Session.confirm`).
"""

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tabsynth._files import write_text
from tabsynth._validate import quote
from tabsynth.app.job import RUNNING, Job, fractions, refuse_second
from tabsynth.app.settings import Settings
from tabsynth.app.state import SCHEMA, ColumnView, PlanView, Preparation
from tabsynth.drafting import draft_schema
from tabsynth.drafting.summary import summarize
from tabsynth.errors import InputError
from tabsynth.schema.column import KINDS
from tabsynth.schema.editing import Edit, edit, parse_bounds, parse_values
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_any, read_table
from tabsynth.tables.labelled import with_labels
from tabsynth.tables.parts import are_parts, write_parts

READING = ("sep", "encoding", "decimal", "sheet")
REPORT = "report.html"
PASSPHRASE = "TABSYNTH_PASSPHRASE"  # of an encrypted private key, as at the command line


class Session:
    """The steps of one preparation, one at a time, those that take long in the background.

    Parameters
    ----------
    folder : Path
        Where everything is written. It is made when the first file is.

    Attributes
    ----------
    state : Preparation
    job : Job or None
        The last step that took long.
    """

    def __init__(self, folder: Path) -> None:
        self.state = Preparation(folder)
        self.job: Job | None = None

    # The table

    def choose(self, path: str | Path, **reading: str | None) -> None:
        """Choose the table by its path. It is not read.

        Raises
        ------
        InputError
            For a path or an option that cannot be.
        """
        refuse_second(self.job)
        unknown = reading.keys() - set(READING)
        if unknown:
            raise InputError(f"There is no option {quote(min(unknown))} of reading a table.")
        texts = {name: (value or "").strip() for name, value in reading.items()}
        self.state.take_table(str(path).strip(), {n: text for n, text in texts.items() if text})

    def confirm(self) -> None:
        """Take note that only people who may see the private rows can see this screen, as a person says."""
        self.state.need_table()
        self.state.confirmed = True

    # The schema

    def draft(self) -> Job:
        """Draft a schema that copies values, for a person to replace."""
        table = self.state.need_confirmed()
        self._refuse_to_overwrite()
        cells = dict(self.state.reading)
        decimal = cells.pop("decimal", None)

        def work(job: Job) -> list[str]:
            schema = draft_schema(read_any(table, ask=True, **cells), decimal=decimal)
            self._write_schema(with_labels(schema, table))
            return [f"Drafted {len(schema.columns)} columns.", *summarize(schema)]

        return self._start("Draft", work)

    def take_schema(self, path: str | Path) -> None:
        """Take a schema file."""
        self.state.need_confirmed()
        refuse_second(self.job)
        source, target = Path(str(path).strip()).expanduser(), self.state.schema_path
        schema = Schema.load(source)
        if source.resolve() == target.resolve():
            self.state.take_schema(schema)
            return
        self._refuse_to_overwrite()
        self._write_schema(schema)

    def _refuse_to_overwrite(self) -> None:
        """Refuse to overwrite the schema of an earlier run."""
        refuse_second(self.job)
        path = self.state.schema_path
        if self.state.schema is None and path.exists():
            raise InputError(
                f"{path} is there already; take it as a schema file, or start tabsynth app with another --folder."
            )

    def _write_schema(self, schema: Schema) -> None:
        """Write the schema file and take it; later steps follow from it, and begin again."""
        self.state.make_folder()
        schema.save(self.state.schema_path, overwrite=self.state.schema is not None)
        self.state.take_schema(schema)

    def change(self, change: Edit) -> None:
        """Edit the schema and its file.

        Raises
        ------
        InputError
            If the result contradicts itself; nothing is changed.
        """
        schema = edit(self.state.need_schema(), change)
        refuse_second(self.job)
        self._write_schema(schema)

    def set_rules(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Declare the rules between columns, as a schema file has them, in place of those that it has."""
        schema = self.state.need_schema().replace(constraints=[*rules])
        refuse_second(self.job)
        self._write_schema(schema)

    def edit_column(self, name: str, **form: Any) -> None:
        """Change the facts of a column to what a form states: see :func:`column_edit`."""
        column = self.state.need_schema()[name]
        self.change(column_edit(ColumnView.of(column), form))

    # The plan

    def plan(self, settings: Settings) -> Job:
        """Compute the planned cost and the expected error. No row is read."""
        refuse_second(self.job)
        schema = self.state.need_schema()
        if settings.ledger is not None and not settings.ledger.is_file():
            raise InputError(
                f"There is no ledger {settings.ledger}; make it with tabsynth ledger create."
            )

        def work(job: Job) -> list[str]:
            from tabsynth.planning import bounds_of, column_errors, plan
            from tabsynth.privacy.accounting.accountants import gaussian_mu

            budget = (settings.epsilon, settings.delta)
            cost = plan(settings.method, settings.fitted_rows, *budget, schema)
            attacker = bounds_of(cost)
            self.state.settings = settings
            self.state.planned = PlanView(
                lines=tuple(cost.lines()),
                attacker=() if attacker is None else tuple(attacker.lines(schema.design.neighbour)),
                one_count=schema.design.bound / gaussian_mu(*budget),
                errors=column_errors(cost, schema, settings.fitted_rows),
            )
            return ["Planned. No row was read."]

        return self._start("Plan", work)

    # The fit

    def _keep_apart(self, job: Job, schema: Schema, share: float) -> None:
        """Write the rows for the fit and those that are kept apart, unless both files have the rows of the table already."""
        state = self.state
        table, files = state.need_confirmed(), (state.training[0], state.holdout or Path())
        rows = read_table(table, schema, **state.reading)
        job.step("keeping rows apart", 0, 0)
        there = all(file.is_file() for file in files)
        if there and are_parts(rows, [read_table(file, schema) for file in files]):
            return
        overwrite, seed = max(map(state.replaces, files)), secrets.randbits(63)
        write_parts(rows, schema, files, share, seed, overwrite=overwrite)
        state.written.update(files)

    def fit(self) -> Job:
        """Fit in the background, or resume the fit that was cancelled."""
        from tabsynth.synthesizers.session import interrupted_cost, is_model_of

        state = self.state
        state.need_confirmed()
        schema, settings = state.need_plan()
        table, reading = state.training
        out, checkpoint = state.file(".model"), state.file(".checkpoint")
        overwrite = is_model_of(checkpoint, out) or state.replaces(out)
        fitted: list[Any] = []

        def work(job: Job) -> list[str]:
            from tabsynth.synthesizers import METHODS

            model = METHODS[settings.method](
                schema,
                epsilon=settings.epsilon,
                delta=settings.delta,
                rows=settings.public_rows,
                accept_drafted_domain=settings.accept_drafted,
            )
            fitted.append(model)
            model.check()  # what a fit refuses is refused before the table is read
            job.step("reading the table", 0, 0)
            if settings.holdout:
                self._keep_apart(job, schema, settings.holdout)
            rows = read_table(table, schema, **reading)
            job.step("beginning", 0, 0)
            model.fit(rows, progress=job.step, checkpoint=checkpoint, ledger=settings.ledger)
            model.save(out, overwrite=overwrite)
            state.written.add(out)
            state.take_model(model)
            return [f"Model: {out}", str(model.certificate()["statement"])]

        def report_cancelled() -> list[str]:
            if not any(hasattr(model, "ledger_") for model in fitted):
                return ["Cancelled before anything was charged."]
            cost = interrupted_cost(fitted[0])
            return [
                f"Cancelled. {cost} Fit again with the same settings to resume from {checkpoint}."
            ]

        return self._start("Fit", work, report_cancelled)

    # The synthetic table

    def make_key(self) -> Path:
        """Make a key pair in the folder."""
        from tabsynth.privacy.certificate.signing import make_keys

        self.state.make_folder()
        path = self.state.key = self.state.folder / "signing.key"
        make_keys(path)
        return path

    def draw(self, n: int | None, key: str | Path | None) -> Job:
        """Draw synthetic rows, and sign their certificate if there is a key."""
        state = self.state
        model = state.need_model()
        path = None if key is None or not str(key).strip() else Path(str(key).strip())
        out = state.file("-synthetic.csv")
        overwrite = state.replaces(out)

        def work(job: Job) -> list[str]:
            from tabsynth.privacy.certificate.certificate import certify

            signer = None if path is None else _signer(path)
            certificate = model.sample_to(out, n, overwrite=overwrite)
            state.written.add(out)
            if signer is not None:
                certify(out, key=signer)
            state.take_synthetic(out)
            state.key = path
            signed = "" if path is None else ", signed"
            return [f"Table: {out}", f"Certificate: {certificate}{signed}"]

        return self._start("Draw", work)

    # The report

    def evaluate(self, holdout: str = "", target: str | None = None) -> Job:
        """Compare the synthetic table with the real one; the report is confidential."""
        state = self.state
        (table, reading), synthetic = state.training, state.need_synthetic()
        schema, other = state.need_schema(), state.holdout
        if other is None and holdout.strip():
            other = Path(holdout.strip())
        out, public = state.report_folder, state.public_key
        overwrite = state.replaces(out / REPORT)

        def work(job: Job) -> list[str]:
            from tabsynth import evaluate, verify
            from tabsynth.evaluation import EvaluationConfig

            certificate = verify(synthetic, public)
            report = evaluate(
                read_table(table, schema, **reading),
                read_table(synthetic, schema),
                None if other is None else read_table(other, schema, **reading),
                schema=schema,
                certificate=certificate if certificate.consistent else None,
                target=target,
                config=EvaluationConfig(progress=fractions(job)),
            )
            out.mkdir(mode=0o700, exist_ok=True)
            report.to_html(out / REPORT, overwrite=overwrite)
            report.to_json(out / "metrics.json", overwrite=overwrite)
            state.written.add(out / REPORT)
            state.summary = report.summary()
            state.picture = report.picture()
            return [f"Report: {out / REPORT}"]

        return self._start("Evaluation", work)

    # The release

    def release(self, folder: str | Path, answers: Mapping[str, str]) -> Job:
        """Write the release dossier to a new folder, signed with the key of the table.

        Parameters
        ----------
        folder : path
        answers : mapping
            What only people know, by the names of :data:`tabsynth.dossier.answers.QUESTIONS`; lists have a line for each
            item.
        """
        from tabsynth.dossier.answers import LISTS, check_answers

        state = self.state
        synthetic = state.need_synthetic()
        out, file = Path(str(folder).strip()), state.file("-release.yaml")
        key, public = state.key, state.public_key
        if key is None or public is None:
            raise InputError(
                "Draw the table with a private key, whose public key is beside it: a release is signed."
            )
        data: dict[str, Any] = {name: text for name, text in answers.items() if text.strip()}
        data |= {n: [x for x in data[n].splitlines() if x.strip()] for n in LISTS if n in data}
        data["schema"] = SCHEMA
        check_answers(data, "The list of answers", state.folder)
        overwrite = state.replaces(file)
        text = "".join(
            f"{name}: {json.dumps(answer, ensure_ascii=False)}\n" for name, answer in data.items()
        )

        def work(job: Job) -> list[str]:
            from tabsynth.dossier.checking import verify_dossier
            from tabsynth.dossier.making import release

            signer = _signer(key)
            write_text(file, text, overwrite=overwrite)
            state.written.add(file)
            release(synthetic, out, answers=file, key=public, sign=signer)
            verified = verify_dossier(out, public)
            state.released = out
            return [f"Release: {out}", f"Verified: {verified.state.value}"]

        return self._start("Release", work)

    # Work in the background

    def _start(
        self,
        title: str,
        work: Callable[[Job], list[str]],
        cancelled: Callable[[], list[str]] = lambda: ["Cancelled."],
    ) -> Job:
        refuse_second(self.job)
        self.job = Job(title, work, cancelled)  # known before it runs: it may be cancelled at once
        return self.job.start()

    def cancel(self) -> None:
        """Cancel what runs."""
        if self.job is not None:
            self.job.cancel()

    def close(self, patience: float) -> None:
        """End what runs, within some seconds."""
        if self.job is not None and self.job.state == RUNNING:
            self.job.cancel()
            self.job.wait(patience)


def column_edit(column: ColumnView, form: Mapping[str, Any]) -> Edit:
    """Return the edit of a column that a form states: ``kind``, ``dtype``, ``low``, ``high``, ``values`` and ``source`` as texts, ``nulls`` and ``declare``.

    A fact that the form leaves empty, or as a person has stated it before, is not part of the edit. A fact that was read
    from the rows is stated by whatever the form has in its place, the same value included.
    """
    read = {fact for fact, _ in column.copied}
    texts = {
        name: str(form.get(name, "")).strip()
        for name in ("dtype", "low", "high", "values", "source")
    }
    kind, ends, nulls = form["kind"], (texts["low"], texts["high"]), form.get("nulls")
    if kind not in KINDS:
        raise InputError(f"There is no kind of column {quote(kind)}.")
    facts: dict[str, Any] = {}
    if kind != column.kind:
        facts["kind"] = kind
    if texts["dtype"] and ("dtype" in read or texts["dtype"] != column.dtype):
        facts["dtype"] = texts["dtype"]
    if any(ends) and (read & {"low", "high"} or ends != (column.low, column.high)):
        facts["low"], facts["high"] = parse_bounds("..".join(ends))
    if texts["values"] and ("categories" in read or texts["values"] != column.values):
        facts["categories"] = parse_values(texts["values"])
    if nulls is not None and ("nulls" in read or nulls != column.nulls):
        facts["nulls"] = nulls
    if not facts and not form.get("declare"):
        raise InputError(f"Nothing of column {quote(column.name)} was changed.")
    return Edit(
        facts={column.name: facts} if facts else {},
        declare=(column.name,) if form.get("declare") else (),
        source=texts["source"] or None,
    )


def _signer(path: Path) -> Any:
    """Read a private key; the passphrase of an encrypted one is in the environment."""
    from tabsynth.privacy.certificate.signing import read_private

    return read_private(path, os.environ.get(PASSPHRASE))
