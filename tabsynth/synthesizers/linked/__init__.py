"""MargNet for linked tables: records of one table given those of another."""
