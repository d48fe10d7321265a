"""What do the texts inside records mean: expressions, guards, treespecs, metadata?"""
