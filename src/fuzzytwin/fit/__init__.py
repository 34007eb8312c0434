"""One fit, from parameters and rows to planes: pure functions on frozen settings."""
