"""Programs whose every text tries to become markup, code, or something else than it is."""

from __future__ import annotations

from collections.abc import Iterator

from documents import document, node, tensor

TEXTS = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    '"><svg onload=alert(1)>',
    "<!-- graphwire:data -->",
    "__proto__",
    "constructor",
    "javascript:alert(1)",
    "\u202egnp.\u2066exe\u200b",
    "a\x07b\nc\u2028d\x1b[31m",
    "&lt;b&gt;${alert(1)}{{7*7}}",
    "x" * 10_000,
)


PATHS = [text for text in TEXTS if len(text) < 1000 and text.isprintable() and not set(text) & set("\"'\\`_")]
"""The texts that may be in names of weights. Readers refuse them as names of values, which are identifiers."""


def hostile_documents() -> Iterator[tuple[str, bytes]]:
    """Yield names and documents: with hostile texts wherever any text may be, with one where it may not be, and no program."""
    nodes = []
    value = "input"
    weights = {f"weight_{index}": f"{path}.weight" for index, path in enumerate(PATHS)}
    for index, text in enumerate(TEXTS):
        inputs = {
            "x": tensor(value),
            "weight": tensor(f"weight_{index % len(PATHS)}"),
            "mode": {"as_string": text},
        }
        trace = f'File "{text}", line 1, in {text}\n    {text}'
        value = f"node_{index}"
        metadata = {"stack_trace": trace, "torch_fn": text, text: text}
        nodes.append(node(value, "torch.ops.hostile.take.default", inputs, [(text, text)], metadata))
    results = {text: f"node_{index}" for index, text in enumerate(TEXTS)}
    fields = {"torch_version": TEXTS[0], "producer": TEXTS[1], "verifiers": list(TEXTS)}
    yield "hostile.json", document(nodes, ["input"], weights, results, **fields)
    named = node(TEXTS[0], "torch.ops.aten.relu.default", {"self": tensor("input")}, [], {})
    yield "refused.json", document([named], ["input"], {}, {"result": TEXTS[0]})
    yield "wrong.json", b'{"<img src=x onerror=alert(1)>": 1}'
