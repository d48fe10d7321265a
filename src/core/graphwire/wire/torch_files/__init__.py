"""What do the `torch.save` files beside a program contain, and how are they read and written without running code?"""

from graphwire.wire.torch_files.sample_inputs import read_sample_inputs
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
    record_chunks,
)
