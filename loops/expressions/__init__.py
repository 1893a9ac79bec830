"""Hog and Liquid: templates and expressions that are compiled once and rendered often."""

from loops.expressions.coercion import to_text
from loops.expressions.template import Engine, Expression, Template, compile_expression, compile_template

__all__ = ["Engine", "Expression", "Template", "compile_expression", "compile_template", "to_text"]
