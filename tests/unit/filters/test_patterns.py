import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.errors import FilterError
from loops.filters import ProjectFilters
from tests.unit.filters.events import actuals, event, holds, one


@pytest.mark.parametrize(
    ("wanted", "actual", "expected"),
    [
        pytest.param(".*", None, False, id="d13-by-D4"),
        pytest.param("x", "", False, id="d14"),
        pytest.param("^$", "", False, id="d14 whatever the pattern"),
        pytest.param("fire", "on fire!", True, id="anywhere in the text"),
        pytest.param("^fire", "on fire", False, id="unless it is anchored"),
        pytest.param("Fire", "on fire", False, id="case counts"),
        pytest.param("(?i)Fire", "on fire", True, id="unless the pattern says not"),
        pytest.param(["x", "^on"], "on fire", True, id="any of a list"),
        pytest.param(["x", "y"], "on fire", False, id="none of a list"),
        pytest.param(r"^\d+$", 42, True, id="numbers as text"),
        pytest.param("'bug'", ["bug"], True, id="a list as Hog prints it"),
        pytest.param("^true$", True, True, id="booleans as text"),
        pytest.param("é.", "caf\u00e9s", True, id="characters are whole"),
        pytest.param("^.$", "\ud800", True, id="half a character breaks nothing"),
        pytest.param("a.b", "a\nb", False, id="a dot is no line end"),
    ],
)
def test_a_pattern_is_searched_in_the_text(wanted: Any, actual: Any, expected: bool) -> None:
    assert holds("regex", wanted, actual) is expected
    assert holds("not_regex", wanted, actual) is not expected


@given(pattern=st.sampled_from(["a", "^a", "a$", "[ab]+c", "a|b", "b{2,3}"]), text=st.text("abc", max_size=8))
def test_patterns_find_what_pythons_find(pattern: str, text: str) -> None:
    expected = text != "" and re.search(pattern, text) is not None
    assert holds("regex", pattern, text) is expected


@given(actual=actuals)
def test_no_pattern_is_the_complement_of_a_pattern(actual: Any) -> None:
    for pattern in ("a", "^1", ".", "[^a]"):
        assert holds("not_regex", pattern, actual) is not holds("regex", pattern, actual)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)b", "lookahead is not supported"),
        ("a(?!b)", "lookahead is not supported"),
        ("(?<=a)b", "lookbehind is not supported"),
        ("(?<!a)b", "lookbehind is not supported"),
        (r"(a)\1", "backreferences are not supported"),
        ("(?>a)", "atomic groups are not supported"),
        ("[", "missing ]"),
        ("a)", "unexpected )"),
        ("*a", "no argument for repetition operator"),
        ("a{2000}", "repetition size"),
        ("(a|b){0,31}" * 70, "too large"),
        ("a" * 1001, "1001 characters"),
        ("", "empty pattern"),
        ("\ud800", "half of a character"),
        (["a", "("], "missing )"),
        ([], "empty list"),
        (None, "has no value"),
        ({"a": 1}, "must be a string"),
    ],
)
@pytest.mark.parametrize("operator", ["regex", "not_regex"])
def test_ui_06_a_pattern_that_cannot_be_used_is_refused_with_the_reason(
    operator: str, pattern: Any, reason: str
) -> None:
    with pytest.raises(FilterError) as caught:
        one("p", operator, pattern)
    (fault,) = caught.value.faults
    assert fault.path == "filters.properties[0].value"
    assert reason in fault.message
    assert fault.hint or "must be" in fault.message


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("(x+x+)+y", False), ("^(a|b|ab)*$", False), ("(.*a){25}", True), ("(a|b)*a(a|b){300}c", False)],
)
def test_no_pattern_hangs(pattern: str, expected: bool) -> None:
    """Some of these take a backtracking engine longer than the universe lasts: that this comes back is the test."""
    assert holds("regex", pattern, "ab" * 100_000 + "!") is expected


def test_a_text_too_long_for_a_pattern_fails_and_says_so() -> None:
    pattern = "(a|b)*a(a|b){900}c"
    long = event({"p": "ab" * 100_000})
    for operator in ("regex", "not_regex"):
        compiled = one("p", operator, pattern)
        assert not compiled.matches(long)
        (compared,) = compiled.explain(long)
        assert "p: filter error, the text is too long for this pattern" in compared.words()
        assert compared.as_json()["error"] == "the text is too long for this pattern"
    assert one("p", "regex", ["b", pattern]).matches(long), "one that was found is enough"


def test_cases_46_and_47_repositories_are_compared_in_lower_case_and_their_patterns_kept() -> None:
    """Nothing is migrated: a draft and an active loop are compiled the same, from what people wrote."""
    occurred = event({"repository": "posthog/posthog"})
    assert one("repository", "exact", ["PostHog/posthog"]).matches(occurred)
    assert one("repository", "regex", r"^PostHog/\S+$").matches(occurred)
    assert not one("repository", "regex", r"^PostHog/\d+$").matches(occurred)
    (compared,) = one("repository", "regex", r"^PostHog/\S+$").explain(occurred)
    assert compared.expected == r"^PostHog/\S+$"


def test_a_path_is_compared_after_the_projects_cleaning() -> None:
    project = ProjectFilters(path_cleaning=[(r"/\d+", "/:id"), (r"\?.*$", "")])
    assert holds("is_cleaned_path_exact", "/users/:id", "/users/42?tab=1", project=project)
    assert holds("is_cleaned_path_exact", ["/x", "/users/7"], "/users/42", project=project)
    assert not holds("is_cleaned_path_exact", "/users/7", "/teams/42", project=project)
    assert not holds("is_cleaned_path_exact", "/users/7", 42, project=project)
    assert not holds("is_cleaned_path_exact", "/users/7", "/users/42")
    assert holds("is_cleaned_path_exact", "/users/7", "/users/7")


def test_a_cleaning_rule_that_is_no_pattern_is_told_as_the_projects_fault() -> None:
    with pytest.raises(FilterError) as caught:
        one("p", "is_cleaned_path_exact", "/x", ProjectFilters(path_cleaning=[("(", "x")]))
    assert caught.value.path == "project.path_cleaning[0]"
