"""MargNet: noisy counts of columns, pairs and triples, and a generator that is fitted to them."""
