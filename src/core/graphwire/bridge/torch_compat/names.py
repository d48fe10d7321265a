"""Classes of torch that its private modules have. The rest of the bridge imports them from here."""

from __future__ import annotations

from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import TreeSpec

__all__ = ["FakeTensor", "HigherOrderOperator", "OpOverload", "TreeSpec", "is_traceable_wrapper_subclass"]
