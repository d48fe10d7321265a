"""Fake tensors of a decoded program's metadata, and the mode that they belong to.

torch imports `torch._dynamo` to make a fake tensor mode or a shape environment, which takes longer than all of a load. A program
with static shapes needs neither until somebody traces it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch import config as functorch_config
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from graphwire.lazy import later

symbolic_shapes = later("torch.fx.experimental.symbolic_shapes")


class DecodedMode(FakeTensorMode):
    """The fake tensor mode of a decoded program. At its first use it sets itself up and becomes a plain `FakeTensorMode` over a
    shape environment for the symbols that a document declares.

    It runs no real kernel until `allow_tracing`.
    """

    def __init__(self) -> None:
        """Set only what the constructor of a fake tensor reads. Any other attribute is absent, and `__getattr__` sets it up."""
        self.allow_fallback_kernels = False
        self.allow_meta = functorch_config.fake_tensor_allow_meta
        self._allow_unsafe_data_ptr_access = functorch_config.fake_tensor_allow_unsafe_data_ptr_access

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name=name, obj=self)
        DecodedMode._set_up(self)  # another thread may have made it a plain mode meanwhile
        return getattr(self, name)

    def _set_up(self) -> None:
        """Become what torch's constructor makes, in an order in which threads may use the mode at once."""
        environment = symbolic_shapes.ShapeEnv(assume_static_by_default=True)
        made = FakeTensorMode(allow_non_fake_inputs=True, shape_env=environment)
        state: dict[str, Any] = self.__dict__
        for name, value in vars(made).items():
            state.setdefault(name, value)
        self.__class__ = FakeTensorMode


def allow_tracing(mode: FakeTensorMode) -> None:
    """Let the mode of a complete program trace like the mode of an export: try the real kernel of a torch operator without a
    fake one, and hide the addresses of tensors."""
    mode.allow_fallback_kernels = True
    mode._allow_unsafe_data_ptr_access = False


class FakeTensors:
    """Makes the fake tensors of a mode.

    The constructor of a fake tensor computes attributes that are the same for all tensors of one device. That takes four
    times as long as the tensor itself, so it is called once for each device.
    """

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode
        self._attributes: dict[torch.device, dict[str, Any]] = {}

    def make(self, meta: torch.Tensor, device: torch.device, requires_grad: bool) -> FakeTensor:
        """Return a fake tensor on `device` with the sizes, strides and type of `meta`. It takes ownership of `meta`."""
        attributes = self._attributes.get(device)
        if attributes is None:
            first = FakeTensor(self.mode, torch.empty(0, device="meta"), device)
            attributes = self._attributes[device] = vars(first)
        fake: FakeTensor = torch.Tensor._make_subclass(
            FakeTensor, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device
        )
        torch._C._set_throw_on_mutable_data_ptr(fake)
        vars(fake).update(attributes)
        return fake
