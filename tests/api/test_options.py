"""Public names and options: each is listed once, shown and checked by the functions that pass it on, and in the documentation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphwire
from graphwire.errors import GraphwireError

LISTED: dict[Callable[..., Any], Any] = {
    graphwire.save: graphwire.SaveOptions,
    graphwire.load: graphwire.LoadOptions,
    graphwire.open: graphwire.OpenOptions,
}
"""The functions whose parameters document options, each with the list of them."""

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")

PASSES_ON = {
    name: function
    for name, function in [(each, getattr(graphwire, each)) for each in graphwire.__all__]
    if inspect.isfunction(function) and inspect.unwrap(function).__code__.co_flags & inspect.CO_VARKEYWORDS
}
"""The functions that take `**options`, by name."""


def keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: each for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}


@pytest.mark.parametrize("function", LISTED, ids=lambda function: function.__name__)
def test_the_list_has_the_parameters_and_their_types(function: Callable[..., Any]) -> None:
    parameters = keywords(function)
    listed = {name: each.__forward_arg__ for name, each in LISTED[function].__annotations__.items()}
    assert {name: each.annotation for name, each in parameters.items()} == listed
    assert not LISTED[function].__required_keys__
    assert all(each.default is not each.empty for each in parameters.values())


@pytest.mark.parametrize("function", LISTED, ids=lambda function: function.__name__)
def test_every_option_is_documented_where_it_is_a_parameter(function: Callable[..., Any]) -> None:
    arguments = str(inspect.getdoc(function)).partition("Args:")[2].partition("Raises:")[0]
    assert [name for name in keywords(function) if arguments.count(f"\n    {name}: ") != 1] == []


@pytest.mark.parametrize("name", PASSES_ON)
def test_a_function_that_passes_options_on_shows_them_with_their_defaults(name: str) -> None:
    function = PASSES_ON[name]
    taken = inspect.unwrap(function).__annotations__["options"]
    (documented,) = (each for each, listed in LISTED.items() if taken == f"Unpack[{listed.__name__}]")
    shown = keywords(function)
    assert {each: shown[each] for each in keywords(documented)} == keywords(documented)


@pytest.mark.parametrize("name", [*PASSES_ON, "save", "load", "open", "decode"])
@pytest.mark.parametrize("option", ["colour", "plugins"])
def test_an_unknown_option_is_named(name: str, option: str, tmp_path: Path) -> None:
    function = getattr(graphwire, name)
    parameters = inspect.signature(function).parameters.values()
    required = [tmp_path / "none" for each in parameters if each.default is each.empty]
    with pytest.raises(TypeError, match=rf"\(\) got an unexpected keyword argument '{option}'"):
        function(*required, **{option: ["graphwire"]})


def rows(text: str, columns: int) -> list[tuple[str, ...]]:
    """The first cells of the rows of tables that begin with code, without its quotes."""
    cell = r"\| `([^`]+)` "
    return [tuple(found.groups()) for found in re.finditer(f"^{cell * columns}", text, re.MULTILINE)]


def test_the_documentation_has_every_public_name_once() -> None:
    names = PAGE.partition("## Options")[0]
    assert sorted(name for (name,) in rows(names, 1)) == sorted(graphwire.__all__)


@pytest.mark.parametrize("function", LISTED, ids=lambda function: function.__name__)
def test_the_documentation_has_every_option_once_with_its_default(function: Callable[..., Any]) -> None:
    section = PAGE.partition(f"## Options of {function.__name__}\n")[2].partition("\n## ")[0]
    defaults = {name: each.default for name, each in keywords(function).items()}
    shown = {name: "Limits()" if name == "limits" else repr(each) for name, each in defaults.items()}
    assert sorted(rows(section, 2)) == sorted(shown.items())
    assert defaults.get("limits", graphwire.Limits()) == graphwire.Limits()


def test_several_functions_pass_options_on() -> None:
    assert {"dumps", "loads", "inspect", "verify", "upgrade", "diff"} <= PASSES_ON.keys()


# ------------------------------------------------------------------------------------------------ types of arguments

PLAIN = {"str": str, "int": int, "bool": bool, "str | None": str}
"""Annotations of arguments that are checked, wherever a method of an archive has one."""


def plain_arguments(function: Any) -> list[str]:
    """The names of parameters that take text, numbers or truth values only."""
    parameters = list(inspect.signature(function).parameters.values())
    return [each.name for each in parameters if str(each.annotation) in PLAIN]


METHODS = [
    (name, parameter)
    for name, member in vars(graphwire.Archive).items()
    if inspect.isfunction(member) and hasattr(member, "__wrapped__") and not name.startswith("_")
    for parameter in plain_arguments(member)
]


@pytest.mark.parametrize(("method", "parameter"), METHODS)
def test_a_wrong_type_given_to_an_archive_is_the_callers_and_not_the_files(
    method: str, parameter: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.pt2"
    graphwire.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), file)
    with graphwire.open(file) as archive:
        function = getattr(archive, method)
        good = {
            each.name: archive.methods[0]
            for each in inspect.signature(function).parameters.values()
            if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
        }
        with pytest.raises(GraphwireError) as caught:
            function(**good | {parameter: [1]})
    assert caught.value.argument == parameter
    assert not caught.value.file


@pytest.mark.parametrize(
    ("function", "parameter"),
    [
        (name, parameter.name)
        for name in graphwire.__all__
        if inspect.isfunction(getattr(graphwire, name))
        for parameter in inspect.signature(getattr(graphwire, name)).parameters.values()
        if str(parameter.annotation) == "bool"
    ],
)
def test_text_is_no_truth_value(function: str, parameter: str) -> None:
    public = getattr(graphwire, function)
    needed = [each for each in inspect.signature(public).parameters.values() if each.default is each.empty]
    given = {each.name: b"" for each in needed if each.kind is each.POSITIONAL_OR_KEYWORD}
    with pytest.raises(GraphwireError) as caught:
        public(**given, **{parameter: "no"})
    assert caught.value.argument == parameter


def test_what_is_no_file_is_no_problem_of_a_file() -> None:
    with pytest.raises(GraphwireError, match="int is not a path") as caught:
        graphwire.verify(3)  # type: ignore[arg-type]
    assert caught.value.argument == "file"
