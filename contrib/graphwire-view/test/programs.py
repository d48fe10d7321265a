"""Programs that the tests of the page show."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional


class Block(torch.nn.Module):
    """A layer of a transformer, with attention over itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 2 * width),
            torch.nn.GELU(),
            torch.nn.Linear(2 * width, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + self.out(functional.scaled_dot_product_attention(query, key, value))
        return x + cast("torch.Tensor", self.mlp(x))


class Swish(torch.nn.Module):
    """Replaces an activation, for a difference."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.7 * x)


class Transformer(torch.nn.Module):
    """A small language model whose embedding and head share their weight."""

    def __init__(self, layers: int = 3, width: int = 32, words: int = 100) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(Block(width) for _ in range(layers))
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(
        self, tokens: torch.Tensor, options: dict[str, list[torch.Tensor]]
    ) -> dict[str, torch.Tensor | tuple[torch.Tensor, ...]]:
        x = self.embedding(tokens) * options["scale"][0]
        for layer in self.layers:
            x = layer(x)
        return {"logits": self.head(x), "hidden": (x,)}


def _language_model(model: Transformer) -> ExportedProgram:
    tokens = torch.ones(2, 7, dtype=torch.long)
    sizes = {"tokens": {0: Dim("batch", max=64), 1: Dim("seq", max=128)}, "options": {"scale": [None]}}
    return export(model, (tokens, {"scale": [torch.ones(1)]}), dynamic_shapes=sizes)


def transformer() -> ExportedProgram:
    return _language_model(Transformer())


def changed_transformer() -> ExportedProgram:
    model = Transformer()
    block = cast("Block", model.layers[1])
    block.mlp[2] = Swish()
    block.norm.eps = 1e-3
    with torch.no_grad():
        model.embedding.weight[0, 0] += 0.25
    return _language_model(model)


def convnet() -> ExportedProgram:
    """A small network for images whose batch norm changes its buffers."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 10),
    )
    return export(model, (torch.ones(2, 3, 16, 16),))


class Choice(torch.nn.Module):
    """A cond inside a cond."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(y: torch.Tensor) -> torch.Tensor:
            return cast("torch.Tensor", torch.cond(y.sum() > 1, torch.sin, torch.cos, (y,)))

        return cast("torch.Tensor", torch.cond(x.sum() > 0, inner, lambda y: y - 1, (x,)))


def cond() -> ExportedProgram:
    return export(Choice(), (torch.ones(3),))


class Loop(torch.nn.Module):
    """A loop that counts down."""

    def forward(self, count: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from torch._higher_order_ops.while_loop import while_loop

        return tuple(while_loop(lambda n, y: n > 0, lambda n, y: (n - 1, y * 2), (count, x)))


def loop() -> ExportedProgram:
    return export(Loop(), (torch.tensor(3), torch.ones(2)))


class Guarded(torch.nn.Module):
    """A program with a condition on its sizes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.reshape(x.shape[0] // 2, -1) + y.sum()


def guarded() -> ExportedProgram:
    half = Dim("half", min=2, max=32)
    return export(
        Guarded(), (torch.ones(8, 3), torch.ones(4)), dynamic_shapes=({0: 2 * half}, {0: Dim("other", min=1)})
    )


def chain() -> ExportedProgram:
    """Nodes without modules: a long chain whose input every third node uses."""

    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x
            for _ in range(120):
                y = torch.relu(y + x) * 1.5
            return y

    return export(Chain(), (torch.ones(2, 8),))


class Twice(torch.nn.Module):
    """Two lists of modules whose members run in turns, and a module that is called in each turn."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(2))
        self.norms = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.ReLU()) for _ in range(2)
        )
        self.shared = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = self.shared(norm(layer(x))) + x
        return cast("torch.Tensor", self.shared(x))


def twice() -> ExportedProgram:
    return export(Twice(), (torch.ones(2, 8),))


class Layer(torch.nn.Module):
    """A layer like its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.up(self.norm(x)).view(2, 2, 4).transpose(1, 2).reshape(2, 8)


class Deep(torch.nn.Module):
    """Many equal layers, and many results."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(12))
        self.order = list(range(12))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        for index in self.order:
            x = self.layers[index](x)
        return tuple(x * index for index in range(30))


def deep() -> ExportedProgram:
    torch.manual_seed(0)
    return export(Deep(), (torch.ones(2, 8),))


class Dense(torch.nn.Module):
    """Every layer reads the results of all before it, and many nodes of one operator stand in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(8 + 4 * each, 4, 3, padding=1) for each in range(10))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        found = [x]
        for conv in self.convs:
            found.append(torch.relu(conv(torch.cat(found, 1))))
        return [found[-1] + index for index in range(60)]


def dense() -> ExportedProgram:
    return export(Dense(), (torch.ones(1, 8, 8, 8),))


class Work(torch.nn.Module):
    """An operator of each formula by which the page counts operations."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = torch.nn.GRU(16, 4)
        self.grouped = torch.nn.Conv2d(4, 6, 3, groups=2, stride=2)
        self.up = torch.nn.ConvTranspose1d(6, 3, 4, stride=2)
        self.volume = torch.nn.Conv3d(1, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.gru(self.lstm(x)[0])
        z = self.grouped(y.reshape(1, 4, 5, -1))
        z = self.up(z.reshape(6, -1))
        v = self.volume(x.reshape(1, 1, 5, 2, -1))
        w = torch.baddbmm(torch.ones(5, 4, 3), y, torch.ones(5, 4, 3)).bmm(torch.ones(5, 3, 2))
        w = torch.einsum("bij,jk->bik", w, torch.ones(2, 7)) @ torch.ones(7, 3)
        a = functional.scaled_dot_product_attention(y[None], torch.ones(1, 5, 9, 4), torch.ones(1, 5, 9, 6))
        m = torch.addmm(torch.ones(2), torch.ones(3, 4), torch.ones(4, 2)).mm(torch.ones(2, 2))
        return sum(each.sum() for each in (z, v, w, a, m))  # type: ignore[return-value]


def work() -> ExportedProgram:
    return export(Work().eval(), (torch.ones(5, 4, 6),))


class Other(Layer):
    """A layer of another class."""


def changed_deep() -> ExportedProgram:
    """Deep, with a layer that runs earlier, one of another class, and one with other weights."""
    torch.manual_seed(0)
    model = Deep()
    changed = Other()
    changed.load_state_dict(model.layers[9].state_dict())
    model.layers[9] = changed
    with torch.no_grad():
        cast("Layer", model.layers[7]).up.weight.mul_(1.25)
    model.order = [0, 1, 5, 2, 3, 4, *range(6, 12)]
    return export(model, (torch.ones(2, 8),))


class Given(torch.nn.Module):
    """A loop over a sequence, one until a condition holds, and branches inside branches, each with weights."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = torch.nn.Linear(12, 8)
        self.refine = torch.nn.Linear(8, 8)
        self.a = torch.nn.Linear(8, 8)
        self.b = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, ...]:
        from torch._higher_order_ops.scan import scan
        from torch._higher_order_ops.while_loop import while_loop

        def step(state: torch.Tensor, now: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            state = torch.tanh(self.cell(torch.cat([now, state], -1)))
            return state, state.clone()

        def inner(y: torch.Tensor) -> torch.Tensor:
            found = torch.cond(y.sum() > 1, lambda z: self.b(z).sin(), lambda z: self.a(z).cos(), (y,))
            return cast("torch.Tensor", found)

        state, found = scan(step, torch.zeros(2, 8), x)
        looped = while_loop(
            lambda n, y: n < count, lambda n, y: (n + 1, self.refine(y)), (torch.tensor(0), state)
        )
        chosen = torch.cond(x.mean() > 0, lambda y: self.a(y).exp(), inner, (found[0],))
        return chosen, *looped


def given() -> ExportedProgram:
    return export(Given(), (torch.ones(7, 2, 4), torch.tensor(3)))


class Calls(torch.nn.Module):
    """A layer that is called again and again, one with the same weights, and an activation that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.other, self.act = Layer(), Layer(), torch.nn.Tanh()
        for name, _ in list(self.layer.named_parameters()):
            module, _, own = name.rpartition(".")
            setattr(self.other.get_submodule(module), own, self.layer.get_parameter(name))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = self.layer(x)
        return cast("torch.Tensor", self.act(self.other(self.act(x))))


def calls() -> ExportedProgram:
    return export(Calls(), (torch.ones(2, 8),))


class Casts(torch.nn.Module):
    """Values that become other types on their way, also weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(3, 3, dtype=torch.int8))

    def forward(self, x: torch.Tensor, mask: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = functional.linear(x, cast("torch.Tensor", self.weight).to(torch.float32))
        z = y.masked_fill(~mask.bool(), -1e9).softmax(-1) + ids.float()[:, None]
        return z.half().view(3, 2), mask.to(torch.bool), (z * ids.double()[:, None]).t()


def casts() -> ExportedProgram:
    return export(Casts(), (torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, dtype=torch.long)))


class Unrolled(torch.nn.Module):
    """A recurrent network without modules, whose every third step is longer."""

    def __init__(self) -> None:
        super().__init__()
        self.given = torch.nn.Parameter(torch.ones(4, 8))
        self.own = torch.nn.Parameter(torch.ones(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(2, 8)
        found = []
        for at in range(50):
            new = torch.tanh(x[:, at] @ self.given + state @ self.own)
            state = torch.sigmoid(new) * new
            if at % 3 == 2:
                state = state / 2
            found.append(state)
        return torch.stack(found, 1)


def unrolled() -> ExportedProgram:
    return export(Unrolled(), (torch.ones(2, 50, 4),))


class Counted(torch.nn.Module):
    """Changes a buffer and an input before it computes anything: no node uses the results."""

    def __init__(self) -> None:
        super().__init__()
        self.count = torch.nn.Buffer(torch.zeros(()))
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        seen.mul_(2)
        return torch.relu(self.inner(x).sin())


def counted() -> ExportedProgram:
    return export(Counted(), (torch.ones(2, 4), torch.ones(3)))


PROGRAMS: tuple[Callable[[], ExportedProgram], ...] = (
    transformer,
    changed_transformer,
    convnet,
    cond,
    loop,
    guarded,
    chain,
    twice,
    deep,
    changed_deep,
    dense,
    work,
    given,
    calls,
    casts,
    unrolled,
    counted,
)
