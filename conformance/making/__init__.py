"""Makes the files of the conformance suite. `make.py` beside this folder runs it."""
