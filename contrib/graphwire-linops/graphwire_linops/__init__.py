"""linops: a small operator library for PyTorch. `graphwire_linops.operators` has the operators, `plugin` what graphwire asks
for, `history` what changed from one version of the library to the next."""
