"""How do FX graphs become records, and come back?"""
