"""Which documents can be read, and for which readers can a program be written?"""
