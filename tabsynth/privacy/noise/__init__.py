"""Noise: exact samplers, noisy counts and noisy votes."""
