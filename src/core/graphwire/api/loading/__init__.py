"""What do loads of any kind share, and how is a program loaded as a module that runs?"""

from graphwire.api.loading.modules import load_module, module_of
from graphwire.api.loading.programs import load_with

__all__ = ["load_module", "load_with", "module_of"]
