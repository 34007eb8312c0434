"""Tests, in folders as the source. Helpers of a folder stand in its `helpers.py`."""
