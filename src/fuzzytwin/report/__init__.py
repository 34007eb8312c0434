"""Explain a trained model in words and on one HTML page."""
