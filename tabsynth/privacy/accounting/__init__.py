"""Accountants: the privacy cost of mechanisms, and the noise that a budget affords."""
