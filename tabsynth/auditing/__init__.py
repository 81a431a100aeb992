"""Tests that a privacy claim has to stand: run on the library itself, by whoever wants to know."""
