"""Adversarial networks whose critic takes private steps."""
