"""Certificates: the claim of a fit, its completeness, its signature and its verification."""
