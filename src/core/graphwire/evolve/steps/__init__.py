"""How does each schema version differ from its successor?"""
