"""How are plugins found, checked and looked up? Hook specifications, provider interfaces, discovery and the registry."""
