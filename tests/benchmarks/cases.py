"""The programs that the benchmarks save and load; those of the demo, at the sizes that matter here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import torch
from torch.export import ExportedProgram, export

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "contrib" / "demo"))

from programs import Decoder, convnet, decoder

__all__ = ["PROGRAMS", "chain", "unbind", "unrolled", "weighty"]


class _Unbind(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(x.unbind(0))


def unbind(outputs: int) -> ExportedProgram:
    """One operator with that many outputs, and one that takes them all: a node for each output."""
    return export(_Unbind(), (torch.rand(outputs, 2),))


class _Weighty(torch.nn.Module):
    def __init__(self, tensors: int, mebibytes: int) -> None:
        super().__init__()
        rows = mebibytes * 2**20 // (4 * 1024)
        self.weights = torch.nn.ParameterList(torch.rand(rows, 1024) for _ in range(tensors))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = x + weight[0]
        return x


def weighty(mebibytes: int) -> ExportedProgram:
    """A small graph with many weights: sixteen tensors that take `mebibytes` MiB together (a multiple of 16)."""
    return export(_Weighty(16, mebibytes // 16), (torch.rand(1024),))


class _LeNet(torch.nn.Sequential):
    """LeNet-5 (LeCun and others, 1998)."""

    def __init__(self) -> None:
        nn = torch.nn
        convolutions = nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh()
        dense = nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)
        super().__init__(*convolutions, nn.AvgPool2d(2), nn.Flatten(), *dense)


class _GraphConvolution(torch.nn.Module):
    """Two layers of Kipf and Welling's graph convolution over an edge list."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(1433, 16), torch.nn.Linear(16, 7)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            x = layer(x)
            x = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]).relu()
        return x.log_softmax(1)


class _Autoencoder(torch.nn.Module):
    """A variational autoencoder of 784 pixels (Kingma and Welling, 2013), as PyTorch's examples have it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.mean, self.spread = (
            torch.nn.Linear(*each) for each in ((784, 400), (400, 20), (400, 20))
        )
        self.outer, self.pixels = torch.nn.Linear(20, 400), torch.nn.Linear(400, 784)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.inner(x.flatten(1)).relu()
        mean, spread = self.mean(hidden), self.spread(hidden)
        sample = mean + torch.randn_like(spread) * (0.5 * spread).exp()
        return self.pixels(self.outer(sample).relu()).sigmoid(), mean, spread


class _Words(torch.nn.Module):
    """A classifier of bags of words (fastText): 52 MB, nearly all of them one table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.EmbeddingBag(130_000, 100)
        self.out = torch.nn.Linear(100, 20)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(self.table(words))


class _AlexNet(torch.nn.Sequential):
    """AlexNet with dense layers of a quarter of their width (Krizhevsky and others, 2012): 107 MB."""

    def __init__(self) -> None:
        nn = torch.nn
        layers: list[torch.nn.Module] = []
        sizes = (
            (3, 64, 11, 4, 2),
            (64, 192, 5, 1, 2),
            (192, 384, 3, 1, 1),
            (384, 256, 3, 1, 1),
            (256, 256, 3, 1, 1),
        )
        for index, (before, after, kernel, stride, padding) in enumerate(sizes):
            layers += [nn.Conv2d(before, after, kernel, stride, padding), nn.ReLU()]
            layers += [nn.MaxPool2d(3, 2)] if index in (0, 1, 4) else []
        dense = nn.Linear(9216, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1000)
        super().__init__(*layers, nn.Flatten(), *dense)


def small(module: torch.nn.Module, *inputs: torch.Tensor) -> ExportedProgram:
    """A program of a few operators."""
    return export(module.eval(), inputs)


class _Chain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.relu()


def perceptron() -> ExportedProgram:
    """A program of 14 nodes: three layers."""
    layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU()]
    return small(torch.nn.Sequential(*layers, torch.nn.Linear(16, 4), torch.nn.Softmax(-1)), torch.rand(2, 8))


def chain(nodes: int) -> ExportedProgram:
    """So many operators one behind the other: made of the records of one, as export itself would take an hour."""
    import graphwire
    from graphwire.schema import Argument, TensorArgument

    record, payloads = graphwire.to_schema(export(_Chain(), (torch.rand(4),)))
    graph = record.graph_module.graph
    (only,) = graph.nodes
    (source,), meta = graph.inputs, next(iter(graph.tensor_values.values()))
    graph.nodes = []
    for index in range(nodes):
        result = Argument(as_tensor=TensorArgument(f"relu_{index}"))
        graph.tensor_values[f"relu_{index}"] = meta
        given = msgspec.structs.replace(only.inputs[0], arg=source)
        graph.nodes.append(
            msgspec.structs.replace(only, inputs=[given], outputs=[result], name=f"relu_{index}")
        )
        source = result
    last = TensorArgument(f"relu_{nodes - 1}")
    del graph.tensor_values["relu"]
    graph.outputs = [Argument(as_tensor=last)]
    record.graph_module.signature.output_specs[0].user_output.arg = Argument(as_tensor=last)
    return graphwire.from_schema(record, payloads)


class _Step(torch.nn.Module):
    """One step of greedy decoding: tokens in, the likeliest next tokens out, from inside as many modules as large models nest."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.decoder: torch.nn.Module = Decoder(layers, 64, 4, 512)
        for _ in range(8):
            self.decoder = torch.nn.Sequential(self.decoder)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.decoder(tokens).argmax(-1)


def unrolled(nodes: int, *, calls_fewer: int = 0, layers: int = 48) -> ExportedProgram:
    """A decoder that is called again and again on its own tokens, in at least so many nodes, or some calls fewer: records of one
    call, repeated.

    Every node has the stack trace, the modules and the value of its original, 3 KB of JSON; export itself would take an hour
    for 100,000 of them.
    """
    import graphwire
    from graphwire.schema import Argument, Renaming, TensorArgument, rewritten

    record, payloads = graphwire.to_schema(
        export(
            _Step(layers).eval(), (torch.randint(512, (2, 16), generator=torch.Generator().manual_seed(0)),)
        )
    )
    graph = record.graph_module.graph
    inputs = {value.as_tensor.name for value in graph.inputs if value.as_tensor is not None}
    (tokens,) = (value.as_tensor.name for value in graph.inputs[-1:] if value.as_tensor is not None)
    (out,) = (value.as_tensor.name for value in graph.outputs if value.as_tensor is not None)
    call, values = list(graph.nodes), dict(graph.tensor_values)
    source = out
    for index in range(1, -(-nodes // len(call)) - calls_fewer):
        names = {name: name if name in inputs else f"{name}_call{index}" for name in values} | {
            tokens: source
        }
        source = names[out]
        renaming = Renaming(names.__getitem__)
        graph.tensor_values |= {names[name]: meta for name, meta in values.items() if name not in inputs}
        for node in call:
            given = [msgspec.structs.replace(each, arg=rewritten(each.arg, renaming)) for each in node.inputs]
            made = [rewritten(each, renaming) for each in node.outputs]
            name = None if node.name is None else f"{node.name}_call{index}"
            graph.nodes.append(msgspec.structs.replace(node, inputs=given, outputs=made, name=name))
    last = Argument(as_tensor=TensorArgument(source))
    graph.outputs = [last]
    record.graph_module.signature.output_specs[0].user_output.arg = last
    return graphwire.from_schema(record, payloads)


PROGRAMS: dict[str, Callable[[], ExportedProgram]] = {
    "decoder-12-dynamic": lambda: decoder(12).program,
    "decoder-48-static": lambda: decoder(48, dynamic=False).program,
    "convnet": lambda: convnet().program,
    "lenet": lambda: small(_LeNet(), torch.rand(1, 1, 32, 32)),
    "graph-convolution": lambda: small(
        _GraphConvolution(), torch.rand(9, 1433), torch.tensor([[0, 1], [2, 3]])
    ),
    "autoencoder": lambda: small(_Autoencoder(), torch.rand(2, 1, 28, 28)),
    "words": lambda: small(_Words(), torch.tensor([[1, 2, 3]])),
    "alexnet": lambda: small(_AlexNet(), torch.rand(1, 3, 224, 224)),
}
"""The programs of the first table, by name."""
