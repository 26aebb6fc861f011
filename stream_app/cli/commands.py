"""Commands as typer takes them: groups of options expanded, help in two lengths.

A parameter whose type is a dataclass is a group: each of its fields becomes an option, in the
group's `panel` of the help if it has one, and the command is called with one instance. Options of
the panel `SHARED` are one line of `--help`; `--help-all` shows each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

from stream_app.cli.options import SHARED
from stream_app.cli.output import printable
from stream_app.errors import UsageError

_HELP_ALL = "--help-all"


def option(default: Any, help: str, metavar: str | None = None, *names: str, **more: Any) -> Any:
    """Return an option, as the default of a command's parameter or of a group's field; `...` where
    it must be given. Without `names` it is called as the parameter is."""
    value = MISSING if default is ... else default
    return field(default=value, metadata={"names": names, "metavar": metavar, "help": help, **more})


class Command(TyperCommand):
    """A command that shows shared options on demand."""

    _whole = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        if _HELP_ALL in args:
            self._whole, args = True, ["--help"]
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            raise _refusal(error) from None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with one line for all shared options."""
        shared = shared_options(self.params)
        self.params.sort(key=shared.__contains__)
        if shared and not self._whole:
            for option in shared:
                option.hidden = True
            names = ", ".join(option.opts[0] for option in shared)
            self.epilog = f"Shared options: {names} (see {_HELP_ALL})"
        super().format_help(ctx, formatter)


def shared_options(parameters: Iterable[Any]) -> list[TyperOption]:
    """Return the options that many commands share."""
    return [
        each
        for each in parameters
        if isinstance(each, TyperOption) and each.rich_help_panel == SHARED
    ]


class Commands(typer.Typer):
    """A group of commands, whose parameters may be groups of options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Return a decorator that adds a command."""
        add = super().command(name, **{"cls": Command, **options})

        def added(function: Callable[..., None]) -> Callable[..., None]:
            add(expanded(function))
            return function

        return added


def expanded(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with a parameter for each field of its groups, which typer reads."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for each in inspect.signature(function).parameters.values():
        if each.name in groups:
            parameters += _parameters(groups[each.name])
        else:
            parameters.append(_parameter(each.name, hints[each.name], each.default))

    @wraps(function)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return the parameters that a group stands for."""
    hints = get_type_hints(group, include_extras=True)
    found = [_parameter(each.name, hints[each.name], each) for each in fields(group)]
    panel = getattr(group, "panel", None)
    if panel is None:
        return found
    return [each.replace(annotation=_moved(each.annotation, panel)) for each in found]


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return the parameter that typer reads; `default` may be an `option`."""
    if isinstance(default, Field):
        if default.metadata:
            more = dict(default.metadata)
            flags = (f"--{name.replace('_', '-')}",) if hint is bool else ()
            hint = Annotated[hint, typer.Option(*(more.pop("names") or flags), **more)]
        default = inspect.Parameter.empty if default.default is MISSING else default.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=hint)


def _moved(hint: Any, panel: str) -> Any:
    """Return the annotation of an option with the option in a panel of the help."""
    option = copy(hint.__metadata__[0])
    option.rich_help_panel = panel
    return Annotated[hint.__origin__, option]


def _refusal(error: typer.BadParameter) -> Exception:
    """Return the refusal of a value with its limits, where pydantic, which typer asks, found it."""
    found: list[Any] = getattr(error.__cause__, "errors", list)()
    if not found:
        return error
    option: Any = error.param
    name, kind, value = option.opts[-1], found[0]["type"], printable(str(found[0]["input"])[:40])
    bounds = (("at least", option.min), ("at most", option.max))
    limits = [f"{word} {bound}" for word, bound in bounds if bound is not None]
    if kind.startswith("bool_"):
        limit = "give true or false"
    elif limits or kind.startswith(("int_", "float_")):
        number = "number" if kind.startswith("float_") else "whole number"
        limit = ", ".join([f"give a {number}", *limits])
    else:
        limit = found[0]["msg"].removeprefix("Value error, ").rstrip(".")
    return UsageError(f"{name} {value}: {limit}")
