"""How do the drafts and the schemas of torch 2.1 to 2.3 differ from their successors?"""
