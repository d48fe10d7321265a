"""How does a program record become a module that runs?"""

from graphwire.bridge.module.module import decode_module

__all__ = ["decode_module"]
