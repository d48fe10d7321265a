"""What do the `torch.save` files beside a program contain, and how are they read and written without running code?"""

from graphwire.wire.torch_files.pickle_reader import read_pickle
from graphwire.wire.torch_files.pickle_values import DTypeName, Instance, LayoutName, Shape
from graphwire.wire.torch_files.pickle_writer import PickleWriter
from graphwire.wire.torch_files.sample_inputs import read_sample_inputs
from graphwire.wire.torch_files.saved_tensor import SavedTensor, find_saved_tensor
from graphwire.wire.torch_files.torch_save_reader import (
    StateDict,
    number_width,
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
