"""`FuzzyTwinSVC` on Spark: an Estimator of `pyspark.ml` that fits by one row per partition.

Nothing but DataFrames is used (`mapInArrow`, one pandas UDF), so it runs over Spark Connect
as well. Needs PySpark (the extra spark) on the executors too, and Java 17 where Spark runs.
"""

from fuzzytwin._utils.extras import missing

try:
    from fuzzytwin.spark.estimator import FuzzyTwinSVC, FuzzyTwinSVCModel
except ImportError as error:  # pragma: no cover
    raise missing("fuzzytwin.spark", "PySpark", "spark", error) from error

__all__ = ["FuzzyTwinSVC", "FuzzyTwinSVCModel"]
