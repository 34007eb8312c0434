"""Provide small helpers without any knowledge of models."""
