"""The version of this library, in the one place where it is written."""

__version__ = "1.0.0"
