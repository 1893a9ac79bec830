"""Programs are compiled once for a revision, and anew for a project that has changed."""

from typing import Any

import pytest

from loops.definition import parse_workflow
from loops.definition.compiled import compile_workflow
from loops.errors import DefinitionError
from loops.event import JsonValue
from loops.filters import ProjectFilters
from loops.projects import filters_of
from loops.runs.load import LoadedProgram, ProgramLoader
from loops.runs.variables import OutputVariable, assign
from loops.store.projects import ProjectSettings
from tests.unit.definition.documents import with_action, with_function

LOCAL: dict[str, Any] = {"key": "$host", "operator": "is_not", "value": "localhost", "type": "event"}


class Revision:
    """A definition that counts how often it is read."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.read = 0

    def __call__(self) -> Any:
        self.read += 1
        return self.document


def without_tests() -> Revision:
    document = with_action({"type": "delay", "config": {"delay_duration": "5m"}}, "event")
    document["actions"][0]["config"]["filters"]["filter_test_accounts"] = True
    return Revision(document)


def test_a_revision_is_read_and_compiled_once_for_the_same_project():
    programs, revision = ProgramLoader(), without_tests()
    first = programs.begin("w", 1, filters_of(ProjectSettings("UTC", [LOCAL])), revision)
    assert programs.begin("w", 1, filters_of(ProjectSettings("UTC", [dict(LOCAL)])), revision) == first
    assert programs.writes("w", 1, filters_of(ProjectSettings("UTC", (LOCAL,))), revision) == ()
    assert revision.read == 1
    programs.begin("w", 2, filters_of(ProjectSettings("UTC", [LOCAL])), revision)
    assert revision.read == 2


def test_a_project_that_changed_is_what_its_workflows_are_judged_by():
    programs, revision = ProgramLoader(), without_tests()
    good = filters_of(ProjectSettings("UTC", [LOCAL]))
    bad = filters_of(ProjectSettings("UTC", [{**LOCAL, "operator": "regex", "value": "("}]))
    programs.begin("w", 1, good, revision)
    with pytest.raises(DefinitionError) as refused:
        programs.begin("w", 1, bad, revision)
    assert refused.value.faults[0].path.startswith("project.test_accounts[0]")
    programs.begin("w", 1, good, revision)
    assert revision.read == 2, "what was compiled with the good filters still holds"


def test_what_may_be_written_is_told_of_the_revision_that_is_asked_for():
    programs, project = ProgramLoader(), filters_of(ProjectSettings())
    task = Revision(with_function("template-posthog-create-task", prompt="Mend it.", repository="acme/widgets"))
    (told,) = programs.writes("w", 1, project, task)
    assert "acme/widgets" in told
    assert programs.writes("w", 2, project, without_tests()) == ()


def test_settings_of_a_project_are_one_object_as_long_as_they_are_the_same():
    berlin = filters_of(ProjectSettings("Europe/Berlin", [LOCAL]))
    assert str(berlin.time_zone) == "Europe/Berlin"
    assert list(berlin.test_accounts) == [LOCAL]
    assert filters_of(ProjectSettings("Europe/Berlin", [dict(reversed(LOCAL.items()))])) is berlin
    others: list[ProjectFilters] = [filters_of(ProjectSettings("UTC", [LOCAL])), filters_of(ProjectSettings())]
    assert all(other is not berlin for other in others)
    with pytest.raises(DefinitionError, match="no time zone"):
        filters_of(ProjectSettings("Europe/Atlantis"))


def test_a_task_is_asked_for_the_fields_that_its_output_variables_name_typed_by_their_variables():
    document = with_function("template-posthog-create-task", prompt="Look.")
    paths = {
        "urgency": "output.urgency", "done": "output.done", "area": "output.area", "whole": "output.labels",
        "nested": "output.a.b", "message": "final_message", "odd": "output.1st", "list": "output.a[0]",
    }  # fmt: skip
    document["variables"] = [
        {"key": key, "type": kind, "default": ""}
        for key, kind in (("urgency", "number"), ("done", "boolean"), ("area", "string"))
    ]
    action = document["actions"][1]
    action["output_variable"] = [{"key": key, "result_path": path} for key, path in paths.items()]
    loaded = LoadedProgram(compile_workflow(parse_workflow(document)))
    assert loaded.fields(action["id"]) == {
        "urgency": "number", "done": "boolean", "area": "string", "labels": "string"
    }  # fmt: skip


def test_a_path_below_a_field_is_not_asked_for_and_still_resolves():
    result: JsonValue = {"output": {"a": {"b": [1, 2]}}}
    outputs = [OutputVariable("nested", "output.a.b"), OutputVariable("none", "output.c.d")]
    assert assign({}, outputs, result) == {"nested": [1, 2], "none": None}
