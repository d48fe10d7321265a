"""How are records of bytes written to one file, read back and checked?"""
