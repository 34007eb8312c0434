"""scikit-learn's checks of estimators: one instance of a class and input path by default."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks


def scikit_learn_checks(*estimators, slow=()):
    """Parametrise a test by `estimator` and `check`; those of `slow` estimators are marked so."""
    cases, ids = [], None
    for group, marks in ((estimators, ()), (slow, pytest.mark.slow)):
        # A list, because scikit-learn 1.6 gives a generator, of which pytest 9 disapproves.
        found = parametrize_with_checks(list(group)).mark
        cases += [pytest.param(*pair, marks=marks) for pair in found.args[1]]
        ids = found.kwargs["ids"]
    return pytest.mark.parametrize(("estimator", "check"), cases, ids=ids)
