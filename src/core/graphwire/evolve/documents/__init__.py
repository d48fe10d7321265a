"""What is a document of one schema version made of, and how is it rewritten?"""
