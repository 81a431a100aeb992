"""Generators that learn from the noisy votes of teachers on disjoint shards."""
