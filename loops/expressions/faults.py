"""How this package says what is wrong. Deep inside only the fault is known; its path is added on the way out."""

from dataclasses import replace

from loops.errors import Fault, TemplateError


def fault(message: str, hint: str = "") -> TemplateError:
    """The error for something that could not be compiled or rendered, its path still open."""
    return TemplateError([Fault("", message, hint)])


def refusal(source: str, position: int, message: str, hint: str = "") -> TemplateError:
    """The error for a fault at an offset of a source text, its path still open."""
    if "\n" in source:
        line = source.count("\n", 0, position) + 1
        place = f"line {line}, column {position - source.rfind(chr(10), 0, position)}"
    else:
        place = f"character {position + 1}"
    return fault(f"{message} at {place}", hint)


def placed(error: TemplateError, path: str) -> TemplateError:
    """The error with the path put where it was open."""
    return TemplateError([replace(one, path=one.path or path) for one in error.faults])
