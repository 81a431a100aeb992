"""Ledgers: the charge of every read of private rows, for one fit and for a project."""
