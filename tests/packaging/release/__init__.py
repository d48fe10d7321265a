"""What `make dist` does: builds the distributions twice, compares them, checks what is in them, and tries them.

The environments start empty. What a machine cannot reach, such as a release of torch for CPUs or a Python, is listed at the end.
"""
