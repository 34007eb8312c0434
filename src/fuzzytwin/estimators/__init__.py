"""Estimators of model M1 and M2, and what every estimator of the library shares."""
