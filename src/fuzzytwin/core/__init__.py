"""Compute moments, planes and distances: arrays in, arrays and small dataclasses out."""
