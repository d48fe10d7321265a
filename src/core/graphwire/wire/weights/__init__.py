"""Where are the weights that a file only refers to, and how are they found, checked and read?"""
