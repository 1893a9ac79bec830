"""Workflows as JSON or YAML, and the typed values that they are read into."""

from loops.definition.compiled import CompiledWorkflow, compile_workflow, listening_filter, listening_mask
from loops.definition.parse import parse_workflow
from loops.definition.reading import read_documents, to_yaml
from loops.definition.workflow import Workflow, export_workflow

__all__ = [
    "CompiledWorkflow",
    "Workflow",
    "compile_workflow",
    "export_workflow",
    "listening_filter",
    "listening_mask",
    "parse_workflow",
    "read_documents",
    "to_yaml",
]
