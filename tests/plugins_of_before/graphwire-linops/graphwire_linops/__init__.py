"""linops: a small operator library for PyTorch, and its graphwire plugin.

`operators` defines the operators, `plugin` the graphwire plugin, and `history` the changes between versions.
"""
