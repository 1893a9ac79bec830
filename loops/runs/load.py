"""Stored definitions as programs: compiled once a revision."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from loops.definition import CompiledWorkflow, compile_workflow, parse_workflow
from loops.event import JsonValue
from loops.runs.program import unpack
from loops.runs.state import RunState, begin
from loops.runs.variables import OutputVariable
from loops.store.runs import Claimed

_KEPT_REVISIONS = 512
