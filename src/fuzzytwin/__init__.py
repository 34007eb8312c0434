"""Fuzzy least-squares twin support vector machines for scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fuzzytwin._utils.version import __version__ as __version__

if TYPE_CHECKING:
    from fuzzytwin._utils.extras import show_versions
    from fuzzytwin.classics import (
        GEPSVC,
        LeastSquaresSVC,
        LeastSquaresTwinSVC,
        ProximalSVC,
        TwinSVC,
    )
    from fuzzytwin.committee import CommitteeMember, FuzzyTwinCommittee
    from fuzzytwin.label_issues import find_label_issues
    from fuzzytwin.memberships import (
        CenterMembership,
        EntropyMembership,
        HyperplaneMembership,
        IntuitionisticMembership,
        Membership,
        MembershipWeighted,
        NeighborMembership,
    )
    from fuzzytwin.tables import TablePreprocessor
    from fuzzytwin.twin import FuzzyTwinSVC, FuzzyTwinSVCCV

__all__ = [
    "GEPSVC",
    "CenterMembership",
    "CommitteeMember",
    "EntropyMembership",
    "FuzzyTwinCommittee",
    "FuzzyTwinSVC",
    "FuzzyTwinSVCCV",
    "HyperplaneMembership",
    "IntuitionisticMembership",
    "LeastSquaresSVC",
    "LeastSquaresTwinSVC",
    "Membership",
    "MembershipWeighted",
    "NeighborMembership",
    "ProximalSVC",
    "TablePreprocessor",
    "TwinSVC",
    "find_label_issues",
    "show_versions",
]

# Imported when first asked for, so that the command line starts at once.
_HOMES = {
    "show_versions": "_utils.extras",
    "TablePreprocessor": "tables",
    "find_label_issues": "label_issues",
    **dict.fromkeys(("FuzzyTwinSVC", "FuzzyTwinSVCCV"), "twin"),
    **dict.fromkeys(("CommitteeMember", "FuzzyTwinCommittee"), "committee"),
    **dict.fromkeys(
        ("GEPSVC", "LeastSquaresSVC", "LeastSquaresTwinSVC", "ProximalSVC", "TwinSVC"), "classics"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'memberships')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
