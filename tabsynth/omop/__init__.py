"""Databases in the OMOP Common Data Model: their public facts, their vocabulary, and their linked schema."""
