"""The same fits on Dask and Spark."""
