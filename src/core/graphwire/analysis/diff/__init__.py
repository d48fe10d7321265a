"""How do two programs differ?"""
