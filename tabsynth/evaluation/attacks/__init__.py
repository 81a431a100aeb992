"""Attacks on people in the training table, each against people who are not in it."""
