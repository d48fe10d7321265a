"""How does an `ExportedProgram` become records and payloads, and come back?"""
