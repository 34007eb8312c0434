"""Paragraphs that the docstrings of several classic estimators share."""

PARAGRAPHS = {
    "rule": """
rule : {"distance", "residual"}, default="distance"
    A row has the class of the nearest plane, by ``|f| / |w|`` or by ``|f|``.
""",
    "solver": """
solver : {"auto", "moments", "gram"}, default="auto"
    How planes are computed, as for `FuzzyTwinSVC`. Both solvers give the same planes.
""",
    "class_weight": """
class_weight : None, "balanced" or dict, default=None
    Factor on the weights of each class. "balanced" gives all classes the same total weight.
""",
    "n_jobs": """
n_jobs : int, default=None
    Number of threads, as for `FuzzyTwinSVC`.
""",
    "kernel": """
kernel, gamma, degree, coef0, n_landmarks
    As for `FuzzyTwinSVC`. Kernels other than "linear" give nonlinear planes.
""",
    "random_state": """
random_state : int, RandomState instance or None, default=0
    Seed of the sample of landmarks, which does not depend on the order of the rows. None is
    random.
""",
    "classes_": """
classes_ : ndarray of shape (K,)
    The labels.
""",
    "planes_": """
coef_, intercept_ : ndarray of shape (n_planes, d) and (n_planes,)
    w and b of each plane.
plane_classes_ : ndarray of shape (n_planes, 2)
    Index of the own and of the rival class of each plane. There are two for each pair of classes.
""",
    "landmark_map_": """
landmark_map_ : LandmarkMap
    Landmarks and the map to their features, which are then the columns of ``coef_``. Absent for
    the linear kernel.
""",
    "moments_": """
moments_ : TwinMoments
    Everything the model keeps of the training rows. Only with the solver "moments".
row_parameters_ : dict
    Parameters on which the moments depend, as they were when the model was fitted.
forget_loss_ : ndarray of shape (K,)
    Factor by which `forget` has amplified rounding errors in each class. Only after `forget`.
solver_ : str
    The solver that was used.
""",
    "rank_": """
rank_ : int
    Least numerical rank of the systems for w.
""",
    "features_in_": """
n_features_in_, feature_names_in_
    Number and names of the columns of the training rows, as in scikit-learn.
""",
    "errors": """
Invalid input raises a ValueError or TypeError that names the parameter, the value and the remedy,
and leaves a fitted model unchanged.
""",
}
