"""Weight, mean and covariance of every class: the public address of `fuzzytwin.core.moments`."""

from fuzzytwin.core.moments import MOST_LOSS, ClassMoments, TwinMoments

__all__ = ["MOST_LOSS", "ClassMoments", "TwinMoments"]
