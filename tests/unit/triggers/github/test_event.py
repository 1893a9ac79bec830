import json
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.event import Event
from loops.filters import compile_filter
from tests.unit.triggers.github.deliveries import (
    KEY,
    RECEIVED,
    SOURCE,
    delivery,
    fixture,
    parsed,
    properties,
    without,
)
from triggers.github.event import MOST_BYTES, event_uuid

NAMESPACE = uuid.UUID("2c9f5d71-8e4a-4b6d-9f13-7a5e0c2b8d64")
KEYS = {
    "integration_id", "event_type", "action", "repository", "repository_id", "repository_visibility", "sender",
    "bot_sender", "own_app", "author_association", "actor_access", "actor_access_reason",
    "title", "number", "body", "url", "review_state",
    "ref", "branch", "installation_id", "github_event",
}  # fmt: skip


def subject(name: str, key: str, **changes: Any) -> dict[str, Any]:
    """The fixture with its `key` changed."""
    whole = fixture(name)
    return {**whole, key: {**whole[key], **changes}}


def sender(name: str, **changes: Any) -> dict[str, Any]:
    return subject(name, "sender", **changes)


def test_an_opened_issue_has_every_documented_property() -> None:
    payload = fixture("issues__opened")
    event = parsed("issues", payload)
    assert dict(event.properties) == {
        "integration_id": 3,
        "event_type": "issues",
        "action": "opened",
        "repository": "acme/widgets",
        "repository_id": 990017,
        "repository_visibility": "public",
        "sender": "ada",
        "bot_sender": None,
        "own_app": False,
        "author_association": "MEMBER",
        "actor_access": "write",
        "actor_access_reason": "by the delivery alone: author_association of the sender is MEMBER",
        "title": "The database is on fire",
        "number": 42,
        "body": "Steps:\r\n\r\n1. export\r\n2. wait",
        "url": "https://github.com/Acme/Widgets/issues/42",
        "review_state": None,
        "ref": "",
        "branch": None,
        "installation_id": 31337,
        "github_event": payload,
    }
    assert event.name == "$github_event_received"
    assert (event.source, event.distinct_id, event.timestamp) == ("github", "ada", RECEIVED)
    assert (event.subject, event.url, event.verified) == ("990017#42", event.properties["url"], True)


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ("issues", "issues__opened"),
        ("issue_comment", "issue_comment__created"),
        ("pull_request", "pull_request__opened"),
        ("pull_request_review", "pull_request_review__submitted"),
        ("push", "push__branch"),
        ("workflow_run", "workflow_run__completed"),
        ("star", "ping__hook"),
    ],
)
def test_every_event_type_has_the_same_properties(event: str, name: str) -> None:
    found = properties(event, fixture(name))
    assert set(found) == KEYS
    assert found["event_type"] == event
    json.dumps(found)


@pytest.mark.parametrize(
    ("association", "access"),
    [
        pytest.param("MEMBER", "write", id="case-48"),
        pytest.param("OWNER", "write", id="case-48-owner"),
        pytest.param("COLLABORATOR", "write", id="case-48-collaborator"),
        pytest.param("NONE", "read", id="case-49"),
        pytest.param("CONTRIBUTOR", "read", id="case-50"),
        pytest.param("FIRST_TIMER", "read", id="case-50-first-timer"),
        pytest.param(None, "read", id="absent"),
        pytest.param("member", "read", id="unknown word"),
    ],
)
def test_an_insiders_own_subject_gives_write(association: str | None, access: str) -> None:
    found = properties("issues", subject("issues__opened", "issue", author_association=association))
    assert found["actor_access"] == access
    assert found["author_association"] == association


def test_d1_the_association_counts_only_for_the_subjects_author() -> None:
    labelled = properties("issues", fixture("issues__labeled_by_another"))
    assert (labelled["author_association"], labelled["actor_access"]) == ("NONE", "read")
    by_outsider = fixture("issues__opened", sender={"login": "eve", "id": 9, "type": "User"})
    found = properties("issues", by_outsider)
    assert (found["author_association"], found["actor_access"]) == ("MEMBER", "read")


def test_d1_a_comment_counts_for_its_own_author_not_for_the_issues() -> None:
    assert properties("issue_comment", fixture("issue_comment__created"))["actor_access"] == "write"
    stranger = subject("issue_comment__created", "comment", author_association="NONE", user={"login": "eve"})
    assert properties("issue_comment", {**stranger, "sender": {"login": "eve"}})["actor_access"] == "read"


def test_d1_two_unknown_people_are_not_the_same() -> None:
    for missing in ({}, {"login": None}):
        payload = {**subject("issues__opened", "issue", user=missing), "sender": missing}
        assert properties("issues", payload)["actor_access"] == "read"


def test_case_51_whoever_pushed_may_write() -> None:
    assert properties("push", fixture("push__branch"))["actor_access"] == "write"


@pytest.mark.parametrize("missing", ["ref", "before", "after"])
def test_what_is_only_called_a_push_gives_nobody_the_right_to_write(missing: str) -> None:
    assert properties("push", without(fixture("push__branch"), missing))["actor_access"] == "read"
    # Stored before the header was held against the body.
    events = SOURCE.parse(delivery("push", fixture("issue_comment__created")), None, {})
    assert isinstance(events, list)
    assert "push" not in str(events[0].properties["actor_access_reason"])


def test_gh_01_a_payload_without_a_sender_is_an_event_of_an_unknown_actor() -> None:
    closed = without(fixture("pull_request__opened", action="closed"), "sender", "installation")
    event = parsed("pull_request", closed)
    assert (event.distinct_id, event.properties["sender"], event.properties["actor_access"]) == (
        "unknown",
        None,
        "read",
    )
    member = subject("pull_request__opened", "pull_request", author_association="MEMBER")
    assert properties("pull_request", without(member, "sender"))["actor_access"] == "read"
    pushed = parsed("push", without(fixture("push__branch"), "sender"))
    assert (pushed.distinct_id, pushed.properties["actor_access"]) == ("installation:31337", "write")


def test_case_52_a_person_is_no_bot_sender() -> None:
    assert properties("issues", fixture("issues__opened"))["bot_sender"] is None


def test_case_53_a_bot_is_named_as_bot_sender() -> None:
    found = properties("pull_request", fixture("pull_request__opened_by_bot"))
    assert found["bot_sender"] == found["sender"] == "dependabot[bot]"


@pytest.mark.parametrize(
    ("slug", "login", "kind", "expected"),
    [
        pytest.param("posthog-bot", "posthog-bot[bot]", "Bot", True, id="case-54"),
        pytest.param("posthog-bot", "dependabot[bot]", "Bot", False, id="case-55"),
        pytest.param("posthog-bot", "posthog-bot", "User", False, id="case-56"),
        pytest.param("posthog-bot", "posthog-bot[bot]", "User", False, id="case-56-with suffix"),
        pytest.param("", "[bot]", "Bot", False, id="case-57"),
        pytest.param(None, "posthog-bot[bot]", "Bot", False, id="case-57-null"),
    ],
)
def test_own_app_is_the_bot_of_the_connections_app(slug: str | None, login: str, kind: str, expected: bool) -> None:
    payload = sender("issues__opened", login=login, type=kind)
    assert properties("issues", payload, app_slug=slug)["own_app"] is expected


def test_case_57_without_a_slug_no_bot_is_our_own() -> None:
    assert properties("issues", sender("issues__opened", login="[bot]", type="Bot"))["own_app"] is False


def test_case_58_commits_of_a_push_are_reduced_to_their_ids() -> None:
    inner = properties("push", fixture("push__branch"))["github_event"]
    assert inner["commits"] == [{"id": "1" * 40}, {"id": "2" * 40}]
    assert inner["head_commit"] == {"id": "2" * 40}
    assert inner["pusher"]["name"] == "ada"


@pytest.mark.parametrize("commits", [None, "x", [None, "x", 5, {"message": "m"}], {"a": 1}], ids=repr)
def test_case_58_commits_of_any_shape_leave_no_message(commits: Any) -> None:
    inner = properties("push", fixture("push__branch", commits=commits, head_commit=commits))["github_event"]
    assert "message" not in json.dumps([inner["commits"], inner["head_commit"]])


def test_case_59_other_events_keep_their_whole_payload() -> None:
    payload = fixture("pull_request__opened", commits=[{"message": "m"}])
    assert properties("pull_request", payload)["github_event"] == payload


def test_case_60_a_review_gives_body_and_association_and_its_pull_request_the_title() -> None:
    found = properties("pull_request_review", fixture("pull_request_review__submitted"))
    assert (found["title"], found["number"], found["branch"]) == ("Raise the export limit", 7, "raise-limit")
    assert (found["body"], found["author_association"]) == ("Looks right", "MEMBER")
    assert (found["review_state"], found["actor_access"]) == ("approved", "write")
    assert found["url"] == "https://github.com/Acme/Widgets/pull/7#pullrequestreview-881"


def test_case_61_a_comment_gives_body_and_association_and_its_issue_the_title() -> None:
    found = properties("issue_comment", fixture("issue_comment__created"))
    assert (found["title"], found["number"]) == ("The database is on fire", 42)
    assert (found["body"], found["author_association"]) == ("@loops please look", "OWNER")
    assert found["url"] == "https://github.com/Acme/Widgets/issues/42#issuecomment-771"


def test_case_62_a_payload_that_is_too_big_is_left_out_and_the_flat_properties_stay() -> None:
    small = fixture("issues__opened", extra="x" * (MOST_BYTES - 20_000))
    assert properties("issues", small)["github_event"] == small
    found = properties("issues", fixture("issues__opened", extra="x" * MOST_BYTES))
    assert found["github_event"] == {"truncated": True}
    assert (found["title"], found["number"]) == ("The database is on fire", 42)


def test_case_62_the_limit_is_of_all_properties_as_json() -> None:
    def size(extra: str) -> int:
        return len(msgspec.json.encode(properties("issues", fixture("issues__opened", extra=extra))))

    fill = "x" * (MOST_BYTES - size(""))
    assert size(fill) == MOST_BYTES
    assert properties("issues", fixture("issues__opened", extra=fill + "x"))["github_event"] == {"truncated": True}


def test_case_62_a_push_is_measured_without_its_commits() -> None:
    commits = [{"id": "1" * 40, "message": "x" * 1_000}] * 2_000
    assert len(properties("push", fixture("push__branch", commits=commits))["github_event"]["commits"]) == 2_000


@pytest.mark.parametrize(
    ("private", "visibility"),
    [(True, "private"), (False, "public"), (None, None), ("yes", None), (1, None)],
    ids=["case-63", "case-63-public", "case-63-null", "case-63-text", "case-63-number"],
)
def test_visibility_is_text_or_null(private: Any, visibility: str | None) -> None:
    payload = subject("issues__opened", "repository", private=private)
    assert properties("issues", payload)["repository_visibility"] == visibility


def test_case_63_visibility_is_null_without_the_key_or_the_repository() -> None:
    payload = fixture("issues__opened")
    bare = without(payload["repository"], "private")
    assert properties("issues", {**payload, "repository": bare})["repository_visibility"] is None
    assert properties("issues", without(payload, "repository"))["repository_visibility"] is None


def test_case_64_only_reviews_have_a_review_state() -> None:
    assert properties("issues", fixture("issues__opened"))["review_state"] is None
    assert properties("pull_request", fixture("pull_request__opened"))["review_state"] is None


@pytest.mark.parametrize(
    ("name", "event", "ref", "branch"),
    [
        ("push__branch", "push", "refs/heads/main", "main"),
        ("push__tag", "push", "refs/tags/v1.0", "refs/tags/v1.0"),
        ("pull_request__opened", "pull_request", "", "raise-limit"),
        ("issues__opened", "issues", "", None),
        ("workflow_run__completed", "workflow_run", "", "main"),
    ],
)
def test_the_branch_is_the_refs_or_the_pull_requests(name: str, event: str, ref: str, branch: str | None) -> None:
    found = properties(event, fixture(name))
    assert (found["ref"], found["branch"]) == (ref, branch)


def test_discussions_and_releases_have_title_body_and_address() -> None:
    said = {
        "node_id": "D_1",
        "number": 9,
        "title": "How?",
        "body": "So.",
        "html_url": "https://x/9",
        "user": {"login": "ada"},
    }
    found = properties("discussion", {**without(fixture("issues__opened"), "issue"), "discussion": said})
    assert (found["title"], found["number"], found["body"], found["url"]) == ("How?", 9, "So.", "https://x/9")
    released = {"name": "1.0", "body": "Notes", "html_url": "https://x/r", "author": {"login": "ada"}}
    found = properties("release", {**without(fixture("issues__opened"), "issue"), "release": released})
    assert (found["title"], found["number"], found["body"]) == ("1.0", None, "Notes")


def test_case_65_two_projects_and_two_connections_have_events_of_their_own() -> None:
    payload = fixture("issues__opened")
    ids = set()
    for project_id, connection_id in (("p", 3), ("q", 3), ("p", 4)):
        events = SOURCE.parse(delivery("issues", payload, project_id=project_id, connection_id=connection_id), None, {})
        assert isinstance(events, list)
        ids.add(events[0].uuid)
    assert len(ids) == 3


@given(project=st.text(), connection=st.integers(0), key=st.text(st.characters(codec="utf-8")))
def test_case_70_the_uuid_is_the_names_uuid5(project: str, connection: int, key: str) -> None:
    assert event_uuid(project, connection, key) == str(uuid.uuid5(NAMESPACE, f"{project}:{connection}:{key}"))


def test_case_70_a_redelivery_keeps_its_uuid() -> None:
    first, again = (parsed("issues", fixture("issues__opened")) for _ in range(2))
    assert first.uuid == again.uuid == str(uuid.uuid5(NAMESPACE, f"p:3:{KEY}"))


def test_gh_17_the_repositorys_name_is_in_lower_case() -> None:
    event = parsed("issues", fixture("issues__opened"))
    assert event.properties["repository"] == "acme/widgets"
    assert compile_filter({"properties": [{"key": "repository", "value": "ACME/Widgets"}]}).matches(event)


def test_gh_30_filters_on_absent_keys_do_not_match() -> None:
    event = parsed("pull_request", {"action": "opened"})
    for key in KEYS - {
        "integration_id",
        "event_type",
        "action",
        "own_app",
        "actor_access",
        "actor_access_reason",
        "ref",
        "github_event",
    }:
        assert not compile_filter({"properties": [{"key": key, "value": ["x", "null", 0]}]}).matches(event)


def test_the_payload_is_decoded_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def whole(body: bytes) -> dict[str, Any]:
        asked.append(body)
        return {"n": len(asked)}

    monkeypatch.setattr("triggers.github.event.whole", whole)
    event = parsed("issues", fixture("issues__opened"))
    assert event.properties["title"]
    assert event.properties.get("nothing") is None
    assert "github_event" in event.properties
    assert set(event.properties) == KEYS
    assert len(event.properties) == len(KEYS)
    assert asked == []
    assert event.properties["github_event"] == event.properties.get("github_event") == {"n": 1}
    assert dict(event.properties)["github_event"] == {"n": 1}
    assert len(event.properties) == len(KEYS)
    assert len(asked) == 1


class TestClaims:
    """What makes two deliveries the same fact, so that one loop takes it once."""

    @staticmethod
    def claim(event: str, payload: Any, key: str = KEY) -> str | None:
        found: Event = parsed(event, payload, key=key)
        return found.claim

    def test_opening_and_labelling_a_new_issue_are_one_gh_25(self) -> None:
        opened = fixture("issues__opened")
        assert self.claim("issues", opened) == self.claim("issues", {**opened, "action": "labeled"}, "k2")

    def test_a_later_change_is_another(self) -> None:
        later = subject("issues__opened", "issue", updated_at="2026-11-02T09:00:01Z")
        assert self.claim("issues", later) != self.claim("issues", fixture("issues__opened"))

    def test_a_comment_and_its_issue_are_two(self) -> None:
        comment = fixture("issue_comment__created")
        assert self.claim("issue_comment", comment) != self.claim("issues", without(comment, "comment"))

    def test_writing_and_deleting_a_comment_are_two(self) -> None:
        created = fixture("issue_comment__created")
        assert self.claim("issue_comment", created) != self.claim("issue_comment", {**created, "action": "deleted"})

    def test_the_same_push_is_one_and_one_that_goes_back_is_another(self) -> None:
        pushed = fixture("push__branch")
        assert self.claim("push", pushed) == self.claim("push", {**pushed, "pusher": None}, "k2")
        assert self.claim("push", pushed) != self.claim("push", {**pushed, "before": "3" * 40})
        assert self.claim("push", pushed) != self.claim("push", {**pushed, "ref": "refs/heads/dev"})
        assert self.claim("push", pushed) != self.claim("push", {**pushed, "repository": {"id": 2}})

    def test_what_has_no_time_of_its_own_is_known_by_its_delivery(self) -> None:
        review = fixture("pull_request_review__submitted")
        assert self.claim("pull_request_review", review) == f"github:{KEY}"
        assert self.claim("pull_request_review", review, "k2") == "github:k2"
