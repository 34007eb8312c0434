"""scikit-learn's checks of estimators: one instance of a class and input path by default."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

# A weight of w is w copies *in one group*, which these checks do not give.
COPIES_WITHOUT_GROUPS = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "copies of a row that are left out one by one tell each other's label",
)


def leaves_rows_out(estimator):
    """Return the checks that an estimator fails on purpose if it leaves rows out."""
    params = estimator.get_params(deep=False)
    left_out = params.get("alpha") == "auto" or any(
        params.get(name) is not None for name in ("calibration", "members")
    )
    return COPIES_WITHOUT_GROUPS if left_out else {}


def scikit_learn_checks(*estimators, slow=()):
    """Parametrise a test by `estimator` and `check`; those of `slow` estimators are marked so."""
    cases, ids = [], None
    for group, marks in ((estimators, ()), (slow, (pytest.mark.slow,))):
        # A list, because scikit-learn 1.6 gives a generator, of which pytest 9 disapproves.
        found = parametrize_with_checks(list(group), expected_failed_checks=leaves_rows_out).mark
        for case in found.args[1]:
            marked = hasattr(case, "marks")
            values, known = (case.values, case.marks) if marked else (case, ())
            cases.append(pytest.param(*values, marks=[*known, *marks]))
        ids = found.kwargs["ids"]
    return pytest.mark.parametrize(("estimator", "check"), cases, ids=ids)
