"""How do records of bytes become one file, and how are they read back and checked?"""
