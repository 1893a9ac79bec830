"""The loops that come with the service are accepted as they stand."""

from pathlib import Path

import pytest

import config
from loops.definition import compile_workflow, export_workflow, read_documents, to_yaml
from loops.schedules.file import read_entries, split
from tests.unit.definition.documents import compiled_of, parsed, warned

EXAMPLES = sorted((Path(config.__file__).parent / "examples").iterdir())


def test_there_are_examples():
    assert {"github-issue-log.yaml", "github-push-delay.yaml", "loop-triage.json"} <= {path.name for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_a_workflow_that_is_only_warned_about_what_this_release_lacks(path):
    for document in read_documents(path.read_text("utf-8"), path.name):
        definition, schedules = split(document)
        workflow = parsed(definition)

        assert warned(workflow) == []
        assert compile_workflow(workflow).sources
        assert export_workflow(workflow) == definition
        assert read_documents(to_yaml(document)) == [document]
        for entry in () if schedules is None else read_entries(schedules, of_loop=workflow.origin_product == "loops"):
            assert entry.warnings == ()


def test_the_issue_example_writes_what_was_opened():
    path = next(path for path in EXAMPLES if path.name == "github-issue-log.yaml")
    (document,) = read_documents(path.read_text("utf-8"), path.name)
    scope = {"event": {"properties": {"sender": "ada", "number": 7, "title": "It breaks"}}}

    rendered = compiled_of(document).render("log", scope)

    assert rendered == {"text": "ada opened issue 7: It breaks"}
