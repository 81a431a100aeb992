"""Differentially private synthetic tables."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tabsynth.errors import BudgetError, FileFormatError, InputError, TabsynthError
from tabsynth.schema import (
    Categorical,
    Column,
    Date,
    Datetime,
    Duration,
    Hierarchical,
    Identifier,
    Numeric,
    Ordinal,
    Period,
    Text,
    Time,
)
from tabsynth.schema.linked import LinkedSchema, TableKeys
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_sample, read_table, write_table

if TYPE_CHECKING:
    from tabsynth.auditing.registry import audit
    from tabsynth.datasets import fetch_acs, load_census, load_hospital
    from tabsynth.dossier.making import release
    from tabsynth.planning import plan
    from tabsynth.privacy.certificate.verification import verify
    from tabsynth.privacy.ledger.project import ProjectLedger
    from tabsynth.report import (
        ComparisonReport,
        LinkedReport,
        PublishedReport,
        Report,
        compare,
        evaluate,
        evaluate_linked,
        evaluate_private,
    )
    from tabsynth.synthesizers import (
        DPGAN,
        DPWGAN,
        PATEACGAN,
        PATEGAN,
        AutoencoderConfig,
        DPGANConfig,
        MargNet,
        MargNetConfig,
        PATEConfig,
        Plan,
        WGANConfig,
        load,
    )
    from tabsynth.synthesizers.linked.estimator import LinkedMargNet
    from tabsynth.synthesizers.private_schema import draft_private
    from tabsynth.synthesizers.suggestions import suggest_constraints
    from tabsynth.tables.counter import RowCounter
    from tabsynth.tables.parquet_counter import ParquetCounter

__version__ = "0.2.0"

__all__ = [
    "DPGAN",
    "DPWGAN",
    "PATEACGAN",
    "PATEGAN",
    "AutoencoderConfig",
    "BudgetError",
    "Categorical",
    "Column",
    "ComparisonReport",
    "DPGANConfig",
    "Date",
    "Datetime",
    "Duration",
    "FileFormatError",
    "Hierarchical",
    "Identifier",
    "InputError",
    "LinkedMargNet",
    "LinkedReport",
    "LinkedSchema",
    "MargNet",
    "MargNetConfig",
    "Numeric",
    "Ordinal",
    "PATEConfig",
    "ParquetCounter",
    "Period",
    "Plan",
    "ProjectLedger",
    "PublishedReport",
    "Report",
    "RowCounter",
    "Schema",
    "TableKeys",
    "TabsynthError",
    "Text",
    "Time",
    "WGANConfig",
    "audit",
    "compare",
    "draft_private",
    "evaluate",
    "evaluate_linked",
    "evaluate_private",
    "fetch_acs",
    "load",
    "load_census",
    "load_hospital",
    "plan",
    "read_sample",
    "read_table",
    "release",
    "suggest_constraints",
    "verify",
    "write_table",
]

# Imported at the first use, so that programs that only evaluate do not wait for torch.
_LATER = {
    "DPGAN": "synthesizers",
    "DPWGAN": "synthesizers",
    "LinkedMargNet": "synthesizers.linked.estimator",
    "MargNet": "synthesizers",
    "PATEACGAN": "synthesizers",
    "PATEGAN": "synthesizers",
    **dict.fromkeys(
        ("AutoencoderConfig", "DPGANConfig", "MargNetConfig", "PATEConfig", "WGANConfig", "Plan"),
        "synthesizers",
    ),
    "audit": "auditing.registry",
    "plan": "planning",
    "verify": "privacy.certificate.verification",
    "load": "synthesizers",
    "ParquetCounter": "tables.parquet_counter",
    "ProjectLedger": "privacy.ledger.project",
    "ComparisonReport": "report",
    "LinkedReport": "report",
    "PublishedReport": "report",
    "Report": "report",
    "RowCounter": "tables.counter",
    "compare": "report",
    "draft_private": "synthesizers.private_schema",
    "evaluate": "report",
    "evaluate_linked": "report",
    "evaluate_private": "report",
    "fetch_acs": "datasets",
    "load_census": "datasets",
    "load_hospital": "datasets",
    "release": "dossier.making",
    "suggest_constraints": "synthesizers.suggestions",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tabsynth' has no attribute {name!r}")
    return getattr(import_module(f"tabsynth.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    """The public names, for completion; submodules are there once they are imported."""
    return sorted(__all__)
