"""Topologies from the files of others. What they lack or get wrong is counted and reported."""
