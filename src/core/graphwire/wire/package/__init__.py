"""Where in an archive do the documents and payloads of programs lie?"""
