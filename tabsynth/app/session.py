"""The state of one preparation: a table, its schema, a plan, a fit, a report and a release. It knows no page.

What the page does is done here, by the public functions of the library. No method gives out anything that follows from
the rows of the table before a person has confirmed that the screen is confidential (:meth:`Session.confirm`).
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tabsynth._files import check_writable, write_text
from tabsynth._validate import shown
from tabsynth.app import steps
from tabsynth.app.job import RUNNING, Job, fractions, refuse_second
from tabsynth.app.settings import Settings
from tabsynth.app.steps import Step
from tabsynth.drafting import draft_schema
from tabsynth.drafting.drafts import review
from tabsynth.errors import InputError
from tabsynth.schema.column import COPIED, KINDS, provenance_in_words
from tabsynth.schema.editing import Edit, edit, parse_bounds, parse_values, with_design
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_any, read_table, suffix

READING = ("sep", "encoding", "decimal", "sheet")
SCHEMA = "schema.json"
PASSPHRASE = "TABSYNTH_PASSPHRASE"  # of an encrypted private key, as at the command line
PROVENANCES = {
    "declared": "declared: a person says that it is public",
    "drafted": "read from the rows: not public",
    "released": "released with noise: its cost is counted",
}


@dataclass(frozen=True, kw_only=True)
class ColumnView:
    """The facts of a column that the page shows.

    Attributes
    ----------
    low, high, values : str or None
        As a person edits them; None where a column of its kind has none.
    words : str
        The provenance, for people.
    copied : tuple of (str, str)
        Facts that stand as they were read from the rows, with their values.
    others : tuple of (str, str)
        Further facts, which are shown and not edited.
    """

    name: str
    kind: str
    dtype: str
    domain: str
    low: str | None
    high: str | None
    values: str | None
    nulls: bool
    provenance: str
    words: str
    source: str
    copied: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class PlanView:
    """The planned cost of a fit, what it means for an attacker, and the expected error.

    All follow from the schema and from public numbers.
    """

    lines: tuple[str, ...]
    attacker: tuple[str, ...]
    one_count: float | None
    errors: tuple[Any, ...]


class Session:
    """One preparation.

    Parameters
    ----------
    folder : Path
        Where everything is written. It is made when the first file is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table: Path | None = None
        self.reading: dict[str, str] = {}
        self.confirmed = False
        self.schema: Schema | None = None
        self.settings: Settings | None = None
        self.planned: PlanView | None = None
        self.model: Any = None
        self.key: Path | None = None
        self.synthetic: Path | None = None
        self.summary: list[str] = []
        self.published: Path | None = None
        self.released: Path | None = None
        self.job: Job | None = None
        self.history: list[Step] = []

    # The folder

    @property
    def schema_path(self) -> Path:
        """The schema file that all later steps take."""
        return self.folder / SCHEMA

    def file(self, ending: str) -> Path:
        """Return a file of the present fit."""
        name = "fit" if self.settings is None else self.settings.name
        return self.folder / f"{name}{ending}"

    @property
    def report_folder(self) -> Path:
        """The folder of the confidential report."""
        return self.file("-report")

    def make_folder(self) -> None:
        """Make the folder, for its owner alone."""
        if self.folder.is_dir():
            check_writable(self.folder / SCHEMA)
        else:
            try:
                self.folder.mkdir(mode=0o700)
            except OSError as error:
                raise InputError(
                    f"Cannot make folder {self.folder}: {error.strerror}; give another --folder."
                ) from None
        self._note(steps.make_folder(self.folder))

    def _note(self, step: Step) -> None:
        known = self.history if step == steps.make_folder(self.folder) else self.history[-1:]
        if step not in known:
            self.history.append(step)

    # The table

    def choose(self, path: str | Path, **reading: str | None) -> None:
        """Choose the table by its path. It is not read.

        Raises
        ------
        InputError
            For a path or an option that cannot be.
        """
        refuse_second(self.job)
        text = str(path).strip()
        if not text:
            raise InputError("Name a file, such as people.csv.")
        table = Path(text).expanduser()
        suffix(table)
        if not table.is_file():
            raise InputError(f"There is no file {shown(text)}; correct the path.")
        if not os.access(table, os.R_OK):
            raise InputError(f"The file {shown(text)} cannot be read; ask for the permission.")
        unknown = reading.keys() - set(READING)
        if unknown:
            raise InputError(f"There is no option {shown(min(unknown))} of reading a table.")
        given = {name: value.strip() for name, value in reading.items() if value and value.strip()}
        self._forget()
        self.table, self.reading = table, given

    def receive(self, name: str) -> Path:
        """Return the path to which an uploaded table of a name is to be written: a new file of the folder, for its owner alone.

        Raises
        ------
        InputError
            For a name that is none of a table, or that is taken.
        """
        base = Path(name.replace("\\", "/")).name
        if not base or base.startswith(".") or any(ord(sign) < 32 for sign in base):
            raise InputError(f"{shown(name)} is no name of a table.")
        suffix(base)
        self.make_folder()
        path = self.folder / base
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} is there already; rename the file, or give its path.")
        return path

    def _forget(self) -> None:
        """Forget what was made of another table."""
        self.schema = self.settings = self.planned = self.model = None
        self._drawn(None)

    def _drawn(self, synthetic: Path | None) -> None:
        """Take another synthetic table, or none, and forget what was made of the one before."""
        self.synthetic, self.published, self.released, self.summary = synthetic, None, None, []

    def confirm(self) -> None:
        """Take note that only people who may see the private rows can see this screen, as a person says."""
        self._table()
        self.confirmed = True

    def _table(self) -> Path:
        if self.table is None:
            raise InputError("Choose a table first.")
        return self.table

    def need_confirmed(self) -> Path:
        """Return the table, whose statistics may be shown from now on.

        Raises
        ------
        InputError
            Before a table is chosen and the screen is confirmed to be confidential.
        """
        table = self._table()
        if not self.confirmed:
            raise InputError("Confirm first that this screen is confidential.")
        return table

    # The schema

    def draft(self) -> Job:
        """Draft a schema that copies values of the table, for a person to replace."""
        table = self.need_confirmed()
        self._new_schema()

        def work(job: Job) -> list[str]:
            frame = read_any(table, ask=True, **self._cells())
            decimal = self.reading.get("decimal")
            schema = steps.labelled(draft_schema(frame, decimal=decimal), table)
            self._keep(schema, steps.draft(table, self.schema_path, self.reading))
            return [f"Drafted {len(schema.columns)} columns.", *_left_out(schema)]

        return self._start("Draft", work)

    def draft_privately(self, epsilon: float, delta: float, ledger: Path | None) -> Job:
        """Draft a schema of noisy counts, for a part of the budget."""
        table = self.need_confirmed()
        self._new_schema()

        def work(job: Job) -> list[str]:
            from tabsynth import draft_private

            frame = read_any(table, ask=True, **self._cells())
            decimal = self.reading.get("decimal")
            schema = draft_private(frame, epsilon, delta, ledger=ledger, decimal=decimal)
            schema = steps.labelled(schema, table)
            step = steps.draft_privately(
                table, self.schema_path, self.reading, epsilon, delta, ledger
            )
            self._keep(schema, step)
            return [f"Released {len(schema.columns)} columns.", *_left_out(schema)]

        return self._start("Private draft", work)

    def take_schema(self, path: str | Path) -> None:
        """Take a schema file."""
        self.need_confirmed()
        refuse_second(self.job)
        source = Path(str(path).strip()).expanduser()
        schema = Schema.load(source)
        if source.resolve() == self.schema_path.resolve():
            self._take(schema)
            return
        self._new_schema()
        self._keep(schema, steps.take_schema(source, self.schema_path))

    def _cells(self) -> dict[str, Any]:
        """Return the options of reading cells as they are."""
        return {name: value for name, value in self.reading.items() if name != "decimal"}

    def _new_schema(self) -> None:
        """Refuse to overwrite the work of an earlier run."""
        refuse_second(self.job)
        if self.schema is None and self.schema_path.exists():
            raise InputError(
                f"{self.schema_path} is there already; take it as a schema file, or start tabsynth app with another"
                " --folder."
            )

    def _keep(self, schema: Schema, step: Step) -> None:
        self.make_folder()
        schema.save(self.schema_path)
        self._take(schema)
        self._note(step)

    def _take(self, schema: Schema) -> None:
        """Take a schema; later steps follow from it, and begin again."""
        self.schema = schema
        self.planned = self.model = None
        self._drawn(None)

    def need_schema(self) -> Schema:
        """Return the schema, if there is one and it may be shown."""
        self.need_confirmed()
        if self.schema is None:
            raise InputError("Make or take a schema first.")
        return self.schema

    def columns(self) -> list[ColumnView]:
        """Return the columns of the schema."""
        return [_view(column.to_dict(), column) for column in self.need_schema().columns]

    def left_out(self) -> list[tuple[str, str]]:
        """Return columns that are not read: name and reason."""
        return [(item["name"], item["reason"]) for item in self.need_schema().left_out]

    def review(self) -> list[str]:
        """Return what a person must check in the schema."""
        schema = self.need_schema()
        return review(schema) if schema.drafted else []

    def rules(self) -> list[str]:
        """Return the rules between columns."""
        return [rule.text for rule in self.need_schema().rules]

    def change(self, change: Edit) -> None:
        """Edit the schema and its file.

        Raises
        ------
        InputError
            If the result contradicts itself; nothing is changed.
        """
        self._change(edit(self.need_schema(), change), steps.edit(self.schema_path, change))

    def set_rules(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """Declare the rules between columns, as a schema file has them, in place of those that it has."""
        schema = self.need_schema().replace(constraints=[*rules])
        self._change(schema, steps.set_rules(self.schema_path, rules))

    def _change(self, schema: Schema, step: Step) -> None:
        refuse_second(self.job)
        schema.save(self.schema_path)
        self._take(schema)
        self._note(step)

    def edit_column(
        self,
        name: str,
        *,
        kind: str,
        dtype: str = "",
        low: str = "",
        high: str = "",
        values: str = "",
        nulls: bool | None = None,
        declare: bool = False,
        source: str = "",
    ) -> None:
        """Change the facts of a column to what a form states.

        A fact that it leaves empty, or as a person has stated it before, is not part of the edit. A fact that was read
        from the rows is stated by whatever the form has in its place, the same value included.
        """
        column = self.need_schema()[name]
        now = _view(column.to_dict(), column)
        read = set(column.copied)
        if kind not in KINDS:
            raise InputError(f"There is no kind of column {shown(kind)}.")
        facts: dict[str, Any] = {}
        if kind != now.kind:
            facts["kind"] = kind
        if dtype.strip() and ("dtype" in read or dtype.strip() != now.dtype):
            facts["dtype"] = dtype.strip()
        ends = (low.strip(), high.strip())
        if any(ends) and (read & {"low", "high"} or ends != (now.low, now.high)):
            facts["low"], facts["high"] = parse_bounds("..".join(ends))
        if values.strip() and ("categories" in read or values.strip() != now.values):
            facts["categories"] = parse_values(values.strip())
        if nulls is not None and ("nulls" in read or nulls != now.nulls):
            facts["nulls"] = nulls
        if not facts and not declare:
            raise InputError(f"Nothing of column {shown(name)} was changed.")
        stated = {name: facts} if facts else {}
        declared = (name,) if declare else ()
        self.change(Edit(facts=stated, declare=declared, source=source.strip() or None))

    def protect(self, unit: str, most_rows: str, weight: str, most_weight: str) -> None:
        """Declare what rows stand for: the unit that privacy protects, and survey weights; empty texts change nothing."""
        design: dict[str, Any] = {}
        for name, limit, texts, kind in (
            ("unit", "max_rows_per_unit", (unit, most_rows), int),
            ("weight", "max_weight", (weight, most_weight), float),
        ):
            column, most = (text.strip() for text in texts)
            if bool(column) != bool(most):
                raise InputError(f"Give the column of the {name} and its limit, or leave out both.")
            try:
                design |= {name: column, limit: kind(most)} if column else {}
            except ValueError:
                raise InputError(f"Expected a number as the limit, got {shown(most)}.") from None
        if not design:
            raise InputError("Name a column, and its limit from public knowledge.")
        schema = with_design(self.need_schema(), **design)
        self._change(schema, steps.set_design(self.schema_path, design))

    # The plan

    def plan(self, settings: Settings) -> Job:
        """Compute the planned cost and the expected error. No row is read."""
        refuse_second(self.job)
        schema = self.need_schema()
        ledger = settings.ledger
        if ledger is not None and not ledger.is_file():
            raise InputError(f"There is no ledger {ledger}; make it first.")

        def work(job: Job) -> list[str]:
            from tabsynth.planning import bounds_of, column_errors, plan, plan_bounds

            classes: dict[str, Any] = (
                {} if settings.class_column is None else {"class_column": settings.class_column}
            )
            budget = (settings.epsilon, settings.delta)
            cost = plan(settings.method, settings.rows, *budget, schema, **classes)
            (one,) = plan_bounds([schema.design.rows], *budget, max_weight=schema.max_weight)
            attacker = bounds_of(cost)
            self.settings = settings
            self.planned = PlanView(
                lines=tuple(cost.lines()),
                attacker=() if attacker is None else tuple(attacker.lines(schema.design.neighbour)),
                one_count=one.noise,
                errors=column_errors(cost, schema, settings.rows),
            )
            self._note(steps.plan(self.schema_path, settings))
            return ["Planned. No row was read."]

        return self._start("Plan", work)

    def make_ledger(self, path: str | Path, epsilon: float, delta: float) -> Path:
        """Make a project ledger."""
        from tabsynth.privacy import ProjectLedger

        self.make_folder()
        ledger = Path(str(path).strip())
        ProjectLedger.create(ledger, epsilon=epsilon, delta=delta)
        self._note(steps.make_ledger(ledger, epsilon, delta))
        return ledger

    def need_plan(self) -> tuple[Schema, Settings]:
        """Return the schema and the settings of a planned fit."""
        schema = self.need_schema()
        if self.planned is None or self.settings is None:
            raise InputError("Plan the privacy cost first.")
        return schema, self.settings

    # The fit

    def fit_step(self) -> Step:
        """Return the fit that is planned, as a command and as code."""
        _, settings = self.need_plan()
        paths = (self._table(), self.schema_path, self.file(".model"), self.file(".checkpoint"))
        return steps.fit(*paths, self.reading, settings)

    def fit(self) -> Job:
        """Fit in the background, or resume the fit that was cancelled."""
        table = self.need_confirmed()
        schema, settings = self.need_plan()
        step = self.fit_step()
        out, checkpoint = self.file(".model"), self.file(".checkpoint")
        reading = dict(self.reading)
        fitted: dict[str, Any] = {}

        from tabsynth.synthesizers.session import interrupted_cost

        def work(job: Job) -> list[str]:
            from tabsynth.synthesizers import METHODS

            given = {name: getattr(settings, name) for name in ("epsilon", "delta")}
            given |= (
                {} if settings.class_column is None else {"class_column": settings.class_column}
            )
            model = METHODS[settings.method](
                schema,
                rows=settings.public_rows,
                accept_drafted_domain=settings.accept_drafted,
                **given,
            )
            fitted["model"] = model
            model.check()  # what a fit refuses is refused before the table is read
            job.step("reading the table", 0, 0)
            rows = read_table(table, schema, **reading)
            job.step("beginning", 0, 0)
            self._note(step)
            model.fit(rows, progress=job.step, checkpoint=checkpoint, ledger=settings.ledger)
            model.save(out)
            self._drawn(None)
            self.model = model
            return [f"Model: {out}", str(model.certificate()["statement"])]

        def cancelled() -> list[str]:
            model = fitted.get("model")
            if model is None or not hasattr(model, "ledger_"):
                return ["Cancelled before anything was charged."]
            cost = interrupted_cost(model)
            return [
                f"Cancelled. {cost} Fit again with the same settings to resume from {checkpoint}."
            ]

        return self._start("Fit", work, cancelled)

    def need_model(self) -> Any:
        """Return the fitted synthesizer."""
        self.need_confirmed()
        if self.model is None:
            raise InputError("Fit a synthesizer first.")
        return self.model

    # The synthetic table

    def make_key(self) -> Path:
        """Make a key pair in the folder."""
        from tabsynth.privacy.certificate.signing import make_keys

        self.make_folder()
        path = self.folder / "signing.key"
        make_keys(path)
        self.key = path
        self._note(steps.make_key(path))
        return path

    @property
    def public_key(self) -> Path | None:
        """The public key beside the private one that signed the table."""
        path = None if self.key is None else self.key.with_name(self.key.name + ".pub")
        return path if path is not None and path.is_file() else None

    def draw(self, n: int | None, key: str | Path | None) -> Job:
        """Draw synthetic rows, and sign their certificate if there is a key."""
        model = self.need_model()
        refuse_second(self.job)
        path = None if key is None or not str(key).strip() else Path(str(key).strip())
        out = self.file("-synthetic.csv")

        def work(job: Job) -> list[str]:
            from tabsynth.privacy.certificate.certificate import certify
            from tabsynth.privacy.certificate.signing import read_private

            signer = None
            if path is not None:
                signer = read_private(path, os.environ.get(PASSPHRASE))
            certificate = model.sample_to(out, n)
            if signer is not None:
                certify(out, key=signer)
            self._drawn(out)
            self.key = path
            self._note(steps.draw(self.file(".model"), out, n, path))
            signed = "" if path is None else ", signed"
            return [f"Table: {out}", f"Certificate: {certificate}{signed}"]

        return self._start("Draw", work)

    def need_synthetic(self) -> Path:
        """Return the synthetic table."""
        self.need_model()
        if self.synthetic is None:
            raise InputError("Draw the synthetic table first.")
        return self.synthetic

    # The report

    def evaluate(self, holdout: str = "", target: str | None = None) -> Job:
        """Compare the synthetic table with the real one; the report is confidential."""
        table, synthetic = self.need_confirmed(), self.need_synthetic()
        schema, reading = self.need_schema(), dict(self.reading)
        other = Path(holdout.strip()) if holdout.strip() else None
        out, public = self.report_folder, self.public_key

        def work(job: Job) -> list[str]:
            from tabsynth import evaluate, verify
            from tabsynth.evaluation import EvaluationConfig

            certificate = verify(synthetic, public)
            given = certificate if certificate.consistent else None
            report = evaluate(
                read_table(table, schema, **reading),
                read_table(synthetic, schema),
                None if other is None else read_table(other, schema, **reading),
                schema=schema,
                certificate=given,
                target=target,
                config=EvaluationConfig(progress=fractions(job)),
            )
            out.mkdir(mode=0o700, exist_ok=True)
            report.to_html(out / "report.html")
            report.to_json(out / "metrics.json")
            self.summary = report.summary()
            step = steps.evaluate(
                table, synthetic, self.schema_path, out, reading, other, target, public
            )
            self._note(step)
            return [f"Report: {out / 'report.html'}"]

        return self._start("Evaluation", work)

    def publish(self, epsilon: float) -> Job:
        """Make a report of noisy figures, which may be published; its cost is in addition to that of the fit."""
        table, synthetic = self.need_confirmed(), self.need_synthetic()
        schema, reading = self.need_schema(), dict(self.reading)
        ledger = None if self.settings is None else self.settings.ledger
        out = self.file("-published")

        def work(job: Job) -> list[str]:
            from tabsynth import evaluate_private, verify

            certificate = verify(synthetic)
            report = evaluate_private(
                read_table(table, schema, **reading),
                read_table(synthetic, schema),
                schema=schema,
                epsilon=epsilon,
                certificate=certificate if certificate.consistent else None,
                ledger=ledger,
            )
            out.mkdir(exist_ok=True)
            report.to_html(out / "report.html")
            report.to_json(out / "metrics.json")
            self.published = out
            self._note(
                steps.publish(table, synthetic, self.schema_path, out, reading, epsilon, ledger)
            )
            return [f"Report with noisy figures: {out / 'report.html'}"]

        return self._start("Private evaluation", work)

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
        from tabsynth.dossier.answers import LISTS, checked

        synthetic = self.need_synthetic()
        out, file = Path(str(folder).strip()), self.file("-release.yaml")
        key, public = self.key, self.public_key
        if key is None or public is None:
            raise InputError(
                "Draw the table with a private key, whose public key is beside it: a release is signed."
            )
        data: dict[str, Any] = {name: text for name, text in answers.items() if text.strip()}
        data |= {n: [x for x in data[n].splitlines() if x.strip()] for n in LISTS if n in data}
        facts = {"schema": SCHEMA} | ({"report": self.published.name} if self.published else {})
        checked({**data, **facts}, "The list of answers", self.folder)
        text = "".join(
            f"{name}: {json.dumps(answer, ensure_ascii=False)}\n"
            for name, answer in {**data, **facts}.items()
        )

        def work(job: Job) -> list[str]:
            from tabsynth.dossier.checking import verify_dossier
            from tabsynth.dossier.making import release
            from tabsynth.privacy.certificate.signing import read_private

            signer = read_private(key, os.environ.get(PASSPHRASE))
            write_text(file, text)
            release(synthetic, out, answers=file, key=public, sign=signer)
            found = verify_dossier(out, public)
            self.released = out
            self._note(steps.release(synthetic, out, file, text, key, public))
            return [f"Release: {out}", f"Verified: {found.state.value}"]

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

    def script(self, what: str) -> str:
        """Return all steps so far, as ``command`` or ``python``."""
        names = [f.name for f in fields(Step)]
        if what not in names:
            raise InputError(f"Expected one of {', '.join(names)}, got {shown(what)}.")
        return "\n\n".join(f"# {step.title}\n{getattr(step, what)}" for step in self.history)


def _view(facts: Mapping[str, Any], column: Any) -> ColumnView:
    """Return the facts of a column, as a schema file has them, for a form."""
    shown_apart = {"name", "kind", "dtype", "nulls", "provenance", "source", "low", "high"}
    shown_apart |= {"categories", COPIED}
    values = facts.get("categories")
    texts = {**facts, "nulls": "yes" if column.nulls else "no"}
    texts |= {} if values is None else {"categories": steps.values_text(values)}
    return ColumnView(
        name=column.name,
        kind=column.kind,
        dtype=column.dtype,
        domain=column.domain(6),
        low=_text(facts.get("low")),
        high=_text(facts.get("high")),
        values=None if values is None else steps.values_text(values),
        nulls=column.nulls,
        provenance=column.provenance,
        words=provenance_in_words(column)
        if column.provenance == "declared" and column.copied
        else PROVENANCES[column.provenance],
        source=column.source or "",
        copied=tuple((fact, str(texts.get(fact))) for fact in column.copied),
        others=tuple((k, shown(v, 200)) for k, v in facts.items() if k not in shown_apart),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _left_out(schema: Schema) -> Sequence[str]:
    return [f"{shown(item['name'])} is left out: {item['reason']}." for item in schema.left_out]
