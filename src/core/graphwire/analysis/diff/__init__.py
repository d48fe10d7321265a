"""How do two programs differ? The differences as records and as readable text."""
