"""Search a grid of parameters by cross-validation at about the cost of one fit per fold."""
