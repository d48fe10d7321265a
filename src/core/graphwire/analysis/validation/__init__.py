"""Does a document obey the rules of its schema?"""
