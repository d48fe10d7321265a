"""The wire formats in the box. Each states only how it deviates from the tree it is given."""
