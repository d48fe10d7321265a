"""How are FX graphs converted to records and back?"""
