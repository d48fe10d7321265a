"""Mistakes of a user, each of which a type checker reports: no public name is `Any`."""

from __future__ import annotations

import graphwire
from graphwire.hooks import Limits, NodeEditor, Tree, WireFormat, opset_steps
from graphwire.schema import Node, Program


class Half:
    """A wire format without the methods of one."""

    name = "half"
    suffix = ".half"
    media_type = "application/x-half"


def mistakes(program: Program, edit: NodeEditor, node: Node) -> None:
    graphwire.open(3.5)  # wrong
    graphwire.convert("a.pt2", "b.pt2", formatt="json")  # wrong
    print(graphwire.inspect("a.pt2").nodes)  # wrong
    graphwire.content_hash(program).hexdigest()  # wrong
    graphwire.diff(program, program, weights="all")  # wrong
    with graphwire.open("a.pt2") as archive:
        print(archive.payload)  # wrong
        print(archive.program.graph)  # wrong
    edit.retarget(3)  # wrong
    opset_steps("acme", "2", [])  # wrong
    node.target = 3  # wrong
    Limits(records="many")  # wrong
    tree: Tree = {1: 2}  # wrong
    form: WireFormat = Half()  # wrong
    print(tree, form)
