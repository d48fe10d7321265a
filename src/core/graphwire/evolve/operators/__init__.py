"""How did operators change between schemas and releases?"""
