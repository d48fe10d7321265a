"""How a program becomes bytes: plain tree ⇄ document ⇄ archive, and the payloads beside it. Free of torch."""
