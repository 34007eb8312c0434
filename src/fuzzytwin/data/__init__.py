"""Files, frames and batches: one reader and one schema for the library and the command line."""
