"""Plug-ins for benchmark libraries. Each module imports the library that it is for; this package imports none."""
