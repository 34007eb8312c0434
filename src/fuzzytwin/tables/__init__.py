"""Turn tables with text, gaps and categories into numbers, and train on them."""
