"""The exploration criterion and its parts: keys and counts, novelties, the formula, the table of methods."""
