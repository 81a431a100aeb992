"""``tabsynth app``: a local page on which a steward prepares a synthetic table. Needs the extra ``app``."""
