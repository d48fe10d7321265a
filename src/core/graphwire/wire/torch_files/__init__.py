"""What do the `torch.save` files beside a program contain, and how are they read and written without running code?"""

from typing import TYPE_CHECKING

from graphwire.lazy import door

if TYPE_CHECKING:
    from graphwire.wire.torch_files.pickle_reader import read_pickle
    from graphwire.wire.torch_files.pickle_values import DTypeName, Instance, LayoutName, Shape
    from graphwire.wire.torch_files.pickle_writer import PickleWriter
    from graphwire.wire.torch_files.sample_inputs import read_sample_inputs
    from graphwire.wire.torch_files.saved_tensor import SavedTensor, find_saved_tensor
    from graphwire.wire.torch_files.state_dict import StateDict, number_width
    from graphwire.wire.torch_files.torch_save_reader import (
        read_embedded_tensor,
        read_state_dict,
        read_tensor,
    )
    from graphwire.wire.torch_files.torch_save_writer import (
        PackedFile,
        pack_examples,
        pack_state_dict,
        pack_tensor,
        record_chunks,
    )
else:
    __getattr__ = door(
        __name__,
        {
            ".pickle_reader": "read_pickle",
            ".pickle_values": "DTypeName Instance LayoutName Shape",
            ".pickle_writer": "PickleWriter",
            ".sample_inputs": "read_sample_inputs",
            ".saved_tensor": "SavedTensor find_saved_tensor",
            ".state_dict": "StateDict number_width",
            ".torch_save_reader": "read_embedded_tensor read_state_dict read_tensor",
            ".torch_save_writer": "PackedFile pack_examples pack_state_dict pack_tensor record_chunks",
        },
    )

__all__ = [
    "DTypeName",
    "Instance",
    "LayoutName",
    "PackedFile",
    "PickleWriter",
    "SavedTensor",
    "Shape",
    "StateDict",
    "find_saved_tensor",
    "number_width",
    "pack_examples",
    "pack_state_dict",
    "pack_tensor",
    "read_embedded_tensor",
    "read_pickle",
    "read_sample_inputs",
    "read_state_dict",
    "read_tensor",
    "record_chunks",
]
