"""The release dossier: a folder with all that the publication of a synthetic table needs, and its verification."""
