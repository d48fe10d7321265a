"""The built-in wire formats. Each documents only how it deviates from the tree."""
