"""Audits: whether what is claimed of a mechanism agrees with what it does."""
