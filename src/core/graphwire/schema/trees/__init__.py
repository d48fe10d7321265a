"""How do records become plain trees, and come back?"""
