"""What a model file may name, and why a model cannot be saved."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from scipy import sparse

from fuzzytwin._utils.extras import need
from fuzzytwin.store.archive import nodes, schema_of

# Sparse rows, which landmarks may be.
SPARSE = frozenset(
    f"scipy.sparse._{kind}.{kind}_{form}"
    for kind in ("csr", "csc", "coo")
    for form in ("array", "matrix")
)
# Types that a file may name beyond those that skops trusts by default, which are scikit-learn's
# estimators, numpy's and scipy's arrays, and plain containers.
TRUSTED = SPARSE | frozenset(
    {
        "fuzzytwin.FuzzyTwinSVC",
        "fuzzytwin.FuzzyTwinSVCCV",
        "fuzzytwin.GEPSVC",
        "fuzzytwin.LeastSquaresSVC",
        "fuzzytwin.LeastSquaresTwinSVC",
        "fuzzytwin.MembershipWeighted",
        "fuzzytwin.ProximalSVC",
        "fuzzytwin.TwinSVC",
        "fuzzytwin.kernels.LandmarkMap",
        "fuzzytwin.memberships.CenterMembership",
        "fuzzytwin.memberships.EntropyMembership",
        "fuzzytwin.memberships.HyperplaneMembership",
        "fuzzytwin.memberships.IntuitionisticMembership",
        "fuzzytwin.memberships.NeighborMembership",
        "fuzzytwin.moments.ClassMoments",
        "fuzzytwin.moments.TwinMoments",
        "fuzzytwin.tables.TablePreprocessor",
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.calibration._TemperatureScaling",
        "sklearn.compose._column_transformer._RemainderColsList",
    }
)
# How skops may build a thing. Methods, partials, operators and reduced constructors are left
# out: no model of ours needs them, and they call what a file names.
LOADERS = frozenset(
    {
        "CachedNode", "DTypeNode", "DictNode", "FunctionNode", "JsonNode", "ListNode",
        "MaskedArrayNode", "NdArrayNode", "ObjectNode", "RandomGeneratorNode", "RandomStateNode",
        "SetNode", "SliceNode", "SparseMatrixNode", "TupleNode", "TypeNode",
    }
)  # fmt: skip
BUILTINS = frozenset(
    {
        "bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "slice",
        "str", "tuple",
    }
)  # fmt: skip
PACKAGES = frozenset({"numpy", "scipy", "sklearn"})


def need_skops() -> ModuleType:
    """Import skops, or say how to install it."""
    return need("skops.io", "store", "a model file")


def untrusted(schema: Any) -> Iterator[str]:
    """Find the names in a schema that are not trusted, built or not, used or not."""
    for node in nodes(schema):
        if "__loader__" not in node and "__class__" not in node:
            continue
        loader, module, kind = map(node.get, ("__loader__", "__module__", "__class__"))
        name = f"{module}.{kind}"
        if not isinstance(module, str) or not isinstance(kind, str) or not _known(module, kind):
            yield f"{name:.80}"
        elif not isinstance(loader, str) or loader not in LOADERS or (
            # Sparse matrices are built by their own loader alone, which builds nothing else.
            loader != "CachedNode" and (name in SPARSE) != (loader == "SparseMatrixNode")
        ):  # fmt: skip
            yield f"{name:.80} (as {loader!s:.40})"


def untrusted_types(content: bytes) -> list[str]:
    """List the names in what skops wrote that `load` would not trust."""
    found = set(untrusted(schema_of(content)))
    return sorted(found or set(need_skops().get_untrusted_types(data=content)) - TRUSTED)


def reason(model: Any) -> str | None:
    """Say which parameter keeps a model from being saved, and the remedy; None if none does."""
    parameters = {"the model": model, **model.get_params(deep=True)}
    for name, value in parameters.items():
        if type(value).__module__ == "fuzzytwin.dask":
            return (
                f"{name} is a fuzzytwin.dask.FuzzyTwinSVC, which a file cannot hold; save what its "
                "to_sklearn() returns."
            )
    for name, whole in parameters.items():
        for value in whole if isinstance(whole, (list, tuple)) else [whole]:
            if not _can_be_saved(value):
                shown = repr(value)
                if "\n" in shown or len(shown) > 80:
                    shown = f"<{type(value).__name__}>"
                return (
                    f"{name}={shown} cannot be saved, as a file that is safe to open holds no code "
                    f"and no foreign types; {_remedy(name, value)}."
                )
    return None


def _known(module: str, kind: str) -> bool:
    package = module.partition(".")[0]
    if package == "builtins":
        return kind in BUILTINS
    if package == "collections":
        return f"{module}.{kind}" == "collections.OrderedDict"
    return f"{module}.{kind}" in TRUSTED or package in PACKAGES


def _can_be_saved(value: Any) -> bool:
    if hasattr(value, "fit") or isinstance(value, (list, tuple)):
        return True  # a model's parameters are looked at one by one
    try:
        return not untrusted_types(need_skops().dumps(value))
    except Exception:
        return False


def _remedy(name: str, value: Any) -> str:
    """Say what to give in place of a parameter that cannot be saved."""
    last = name.rpartition("__")[2]
    if last in ("kernel", "kernels"):
        return 'use a kernel with a name, such as "rbf"'
    if last in ("membership", "memberships"):
        return "give the membership by name or the degrees to fit"
    if last == "n_landmarks" or sparse.issparse(value) or hasattr(value, "to_numpy"):
        return "give it as a NumPy array or as a CSR matrix"
    if callable(value):
        return "use a step of scikit-learn's own that does the same"
    return "give plain numbers, texts or arrays"
