"""Measurements of fuzzytwin against peers and limits: ``python -m benchmarks NAME``."""
