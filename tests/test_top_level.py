"""What ``tabsynth`` and its packages export: few names at the top, the others one level down."""

import inspect
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from mentions import PUBLIC

import tabsynth
from tabsynth import InputError
from tabsynth.synthesizers import METHODS, DPGANConfig, MargNetConfig, PATEConfig, Plan, WGANConfig

BY_METHOD = {
    "dp-gan": DPGANConfig,
    "dp-wgan": WGANConfig,
    "margnet": MargNetConfig,
    "pate-acgan": PATEConfig,
    "pate-gan": PATEConfig,
}


@pytest.mark.parametrize("name", [*PUBLIC])
def test_every_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(PUBLIC[name])


def test_the_top_is_small_enough_to_hold_in_mind() -> None:
    assert len(tabsynth.__all__) <= 35


def test_modules_do_not_hide_functions() -> None:
    """A package of the same name would replace the function once it is imported."""
    import tabsynth.auditing.replay
    import tabsynth.planning
    import tabsynth.privacy.certificate.verification

    assert all(inspect.isfunction(getattr(tabsynth, n)) for n in ("audit", "plan", "verify"))


@pytest.mark.parametrize("method", BY_METHOD)
def test_config_is_the_parameter_of_every_method(method: str) -> None:
    config = BY_METHOD[method]
    assert is_dataclass(config) and METHODS[method].parameter_names().count("config") == 1
    _, schema = tabsynth.load_census()
    given = {"class_column": schema.names[2]} if method == "pate-acgan" else {}
    model = METHODS[method](schema, epsilon=1.0, config=config(), **given)
    assert model.get_params(deep=False)["config"] == config()
    with pytest.raises(InputError, match="config to be a"):
        model.set_params(config=5).plan(estimate_time=False)


def test_plan_is_that_of_the_estimator() -> None:
    _, schema = tabsynth.load_census()
    plan = tabsynth.plan("margnet", 1000, 1.0, schema=schema)
    own = tabsynth.MargNet(schema, epsilon=1.0, rows=1000).plan(estimate_time=False)
    assert isinstance(plan, Plan) and plan == own
    assert "class votes" in str(tabsynth.plan("pate-acgan", 1000, 1.0, teachers="networks"))
    for words, says in (
        (("margnet", 1000, 1.0), "schema"),
        (("margent", 1000, 1.0), "margent"),
        (("dp-gan", 0, 1.0), "rows"),
    ):
        with pytest.raises(InputError, match=says):
            tabsynth.plan(*words)
    with pytest.raises(InputError, match="takes no parameter 'teacher_count'"):
        tabsynth.plan("dp-gan", 1000, 1.0, teacher_count=3)


def test_audit_gives_results_of_each_kind() -> None:
    results = tabsynth.audit("margnet", 1.0, kinds=["white-box"], runs=200)
    assert {result.kind for result in results} == {"white-box"}
    assert not any(result.is_refuted for result in results)
    assert all(
        result.method == "margnet" and 0 < result.epsilon_claimed <= 1.0 for result in results
    )
    with pytest.raises(InputError, match="grey-box"):
        tabsynth.audit("margnet", 1.0, kinds=["grey-box"])


def test_verify_takes_a_table(tmp_path: Path) -> None:
    table, schema = tabsynth.load_census()
    config = MargNetConfig(steps=5)
    model = tabsynth.MargNet(schema, epsilon=1.0, config=config).fit(table[:200])
    model.sample_to(tmp_path / "t.csv", 20)
    assert tabsynth.verify(tmp_path / "t.csv").consistent


@pytest.mark.parametrize("statement", ["import tabsynth", "tabsynth.InputError"])
def test_an_import_waits_for_nothing_that_it_does_not_use(statement: str) -> None:
    code = f"import sys, tabsynth; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    assert {"torch", "pandas", "scipy", "sklearn", "pyarrow"} & set(done.stdout.split()) == set()


def test_a_fit_and_a_sample_import_nothing_that_takes_long_and_is_not_used() -> None:
    """scikit-learn and torch's compiler take as long as the fit of a small table."""
    code = """
import sys, tabsynth
from tabsynth.synthesizers import MargNetConfig
table, schema = tabsynth.load_census()
model = tabsynth.MargNet(schema, epsilon=1.0, config=MargNetConfig(steps=5)).fit(table[:200])
model.sample(20)
print(*sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True
    )
    slow = {"sklearn", "scipy.stats", "category_encoders", "torch._dynamo", "sympy"}
    assert slow & set(done.stdout.split()) == set()


def test_dir_lists_the_public_names_and_nothing_else() -> None:
    """In a new process, before and after a module was imported; submodules stay importable."""
    code = """
import tabsynth
assert dir(tabsynth) == sorted(tabsynth.__all__), dir(tabsynth)
import tabsynth.schema.schema, tabsynth.cli
from tabsynth import errors
assert dir(tabsynth) == sorted(tabsynth.__all__)
assert tabsynth.schema.schema.Schema is tabsynth.Schema and tabsynth.__version__
assert errors.InputError is tabsynth.InputError and callable(tabsynth.verify)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
