"""Train and measure on one table, for the commands, the reports and the studio."""

from fuzzytwin.experiment._experiment import Experiment

__all__ = ["Experiment"]
