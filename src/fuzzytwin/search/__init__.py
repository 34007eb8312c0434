"""Search a grid of parameters by cross-validation, from the moments of the folds."""
