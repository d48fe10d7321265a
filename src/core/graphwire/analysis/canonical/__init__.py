"""Do two programs mean the same?"""
