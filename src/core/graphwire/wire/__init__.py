"""How do programs become bytes, and bytes programs again?"""
