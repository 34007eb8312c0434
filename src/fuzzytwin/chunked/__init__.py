"""Fit a model over chunks of rows that are never in one place."""
