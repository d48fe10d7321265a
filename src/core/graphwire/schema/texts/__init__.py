"""How are the texts inside records parsed: expressions, guards, treespecs, metadata?"""
