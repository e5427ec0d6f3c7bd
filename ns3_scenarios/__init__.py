"""ns-3 as the clock of a run: the only package that knows ns-3."""
