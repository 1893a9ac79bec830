"""What an agent's change may touch."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loops.tasks.workspace.change import ABSENT, LINK, MODULE, Change, Rules, read_changes, violations
from loops.tasks.workspace.links import Links
from loops.tasks.workspace.protected import protected_as

OLD, NEW = "a" * 40, "b" * 40
FILE, PROGRAM = "100644", "100755"


def changed(path: str, before: str = FILE, after: str = FILE, size: int = 10, target: str | None = None) -> Change:
    return Change(path, before, after, OLD, NEW, size, target)


def broken(change: Change, added: str = "", rules: Rules | None = None) -> list[str]:
    """The rules that a change breaks."""
    found = violations([change], {change.path: added}, rules or Rules())
    assert all(fault.path and fault.message for fault in found)
    return [fault.code for fault in found]


@pytest.mark.parametrize(
    "change",
    [
        changed("README.md"),
        changed("src/größe.py"),
        changed("docs/a b.md", before=ABSENT),
        changed("old.py", after=ABSENT),
        changed("run.sh", before=ABSENT, after=PROGRAM),
        changed("link", before=ABSENT, after=LINK, target="docs/a.md"),
        changed("docs/link", before=ABSENT, after=LINK, target="../README.md"),
        changed("src/skills/jump.py"),
        changed("github/workflows.md"),
    ],
    ids=lambda change: change.path,
)
def test_what_agents_are_for_is_taken(change):
    assert broken(change, "a plain line") == []


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".GitHub/workflows/ci.yml",
        "sub/.github/workflows/x.yml",
        ".gitlab-ci.yml",
        "Jenkinsfile",
        ".circleci/config.yml",
        "tools/action.yaml",
        "CLAUDE.md",
        "docs/claude.md",
        "AGENTS.md",
        ".claude/settings.json",
        ".mcp.json",
        ".cursor/rules/a.mdc",
        "skills/triage/SKILL.md",
        ".gitmodules",
        "a/.gitattributes",
        ".husky/pre-commit",
        ".pre-commit-config.yaml",
        ".npmrc",
        "CODEOWNERS",
        ".github/CODEOWNERS",
        "docs/CODEOWNERS",
        "\uff23LAUDE.md",
        "CLAUDE.MD ",
        ".github./workflows/x.yml",
        ".github /x.yml",
        ".kiro/steering/x.md",
        ".continue/rules/x.md",
        "opencode.json",
        ".junie/guidelines.md",
        ".zed/tasks.json",
        ".goosehints",
        "WARP.md",
        "mise.toml",
        "app/.cargo/config.toml",
        "x.code-workspace",
        ".cirrus.yml",
        "renovate.json5",
        "docs/style.instructions.md",
        ".mvn/extensions.xml",
    ],
)
def test_protected_files_are_not_taken_in_any_spelling(path):
    assert "protected" in broken(changed(path))
    assert "protected" in broken(changed(path, after=ABSENT))


def test_an_operator_protects_further_files():
    rules = Rules(protected=("package.json", "*.lock", "/deploy/*"))
    for path in ("package.json", "web/package.json", "poetry.lock", "deploy/prod.yaml"):
        assert broken(changed(path), rules=rules) == ["protected"]
    for path in ("package.json.md", "docs/deploy/notes.md"):
        assert broken(changed(path), rules=rules) == []


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "a/../b", "a//b", ".git/config", "a/.GIT/hooks/x", "git~1/config", ".git./x",
     ".g\u200cit/x", "GITHUB~1/x", "a\\b", "c:x", "a\nb", "a\u202eb", "a\udcffb"],
)  # fmt: skip
def test_paths_that_mean_another_place_are_not_taken(path):
    assert "path" in broken(changed(path))


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "../../x",
        "../x",
        "a/../../x",
        ".git/config",
        ".git/../a",
        ".",
        "",
        None,
        "x\\y",
        "x\0y",
        "link",
        ".github/workflows",
        ".github",
        ".cargo",
        "a/" * 3000,
    ],
)
def test_links_lead_nowhere_else(target):
    assert broken(changed("link", before=ABSENT, after=LINK, target=target)) == ["symlink"]


def judged(changes: list[Change], links: dict[str, str] | None = None, **rules: Any) -> list[tuple[str, str]]:
    """The rules that changes break, and where, in a repository with these links."""
    return [(fault.code, fault.path) for fault in violations(changes, {}, Rules(**rules), links)]


def link(path: str, target: str, before: str = ABSENT) -> Change:
    return changed(path, before=before, after=LINK, target=target)


@pytest.mark.parametrize(
    "name",
    [".github", ".claude", ".husky", ".vscode", ".cursor", ".githooks", ".devcontainer", ".circleci", ".codex",
     "skills", "web/.Claude", ".cargo", ".mvn"],
)  # fmt: skip
def test_no_link_stands_for_a_folder_of_protected_files(name):
    assert judged([link(name, "tools/agent")]) == [("protected", name)]
    assert judged([changed(name, before=LINK, after=ABSENT)]) == [("protected", name)]


@pytest.mark.parametrize(
    ("path", "links"),
    [
        ("docs/guide.md", {"CLAUDE.md": "docs/guide.md"}),
        ("tools/hooks/pre-commit", {".husky": "tools/hooks"}),
        ("tools/hooks/new", {"app/.husky": "../tools/hooks/"}),
        ("a/b", {".claude": "one/two", "one": "a", "a/two": "b"}),
        ("ci/x.yml", {".github": "etc", "etc/workflows": "../ci"}),
        ("conf/config.toml", {".cargo": "conf"}),
        ("conf/settings.json", {".claude": "all", "all": "conf"}),
        ("Docs/guide.md", {"CLAUDE.md": "docs/GUIDE.md"}),
        ("settings.json", {".claude": "."}),
        ("live/x.yaml", {"deploy": "live"}),
    ],
)
def test_what_a_link_makes_a_protected_file_is_one(path, links):
    more = ("/deploy/*",)
    for change in (changed(path), changed(path, before=ABSENT), changed(path, after=ABSENT), link(path, "README.md")):
        assert ("protected", path) in judged([change], links, protected=more)
    assert judged([changed("src/other.py")], {one: to for one, to in links.items() if to != "."}, protected=more) == []


def test_a_link_of_the_change_itself_makes_protected_files_too():
    assert judged([changed("x/config.toml"), link("a/.cargo", "../x")])[0] == ("protected", "x/config.toml")


def test_links_that_lead_away_together_are_found_and_those_of_the_repository_are_let_be():
    up, away = link("a/b/c/up", "../.."), link("z", "a/b/c/up/../../../etc/passwd")
    assert judged([up]) == []
    assert judged([up, away]) == [("symlink", "z")]
    assert judged([away], {"a/b/c/up": "../.."}) == [("symlink", "z")]
    assert judged([up], {"z": away.target or ""}) == [("symlink", "z")]
    assert judged([link("A/b/C/up", "../.."), away]) == [("symlink", "z")]
    old = {"out": "/etc/hosts", "self": "self", "up": ".."}
    assert judged([link("new", "README.md")], old) == []
    assert judged([link("new", "out/x")], old) == [("symlink", "new")]


def test_many_links_take_no_long_time_and_too_many_names_are_told():
    upward = {f"packages/{number}/root": "../.." for number in range(60)}
    assert judged([changed("src/a.py")], upward) == []
    many = {f"{number}/{one}": f"../{number + 1}" for number in range(12) for one in "abc"}
    ((code, _),) = judged([changed("12/x")], many)
    assert code == "protected"
    bomb = {f"l{number}": "/".join([f"l{number + 1}"] * 30) for number in range(30)}
    assert judged([link("x", "l0")], bomb) == []
    chain = {f"l{number}": f"l{number + 1}" for number in range(50)}
    assert judged([link("x", "l0")], chain) == [("symlink", "x")]
    assert judged([link("x", "a")], {one: "a/" * 2000 + two for one in "aA" for two in "aA"}) == [("symlink", "x")]


NAMES = st.sampled_from(["a", "b", "c", "d"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
TARGETS = st.lists(st.sampled_from(["a", "b", "c", "..", "..", "."]), min_size=1, max_size=6).map("/".join)


@settings(max_examples=60)
@given(st.dictionaries(PATHS, TARGETS, min_size=1, max_size=6))
def test_a_link_leads_where_the_system_says_that_it_leads(links):
    with tempfile.TemporaryDirectory() as around:
        top = Path(around).resolve() / "x" / "top"
        top.mkdir(parents=True)
        made = {}
        for path, target in links.items():
            place = top / path
            with suppress(OSError):  # something else stands there, or in its way
                if os.path.realpath(place.parent) == str(place.parent):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.symlink_to(target)
                    made[path] = target
        for path in made:
            way = Links(made).way(path)
            there = os.path.relpath(os.path.realpath(top / path), top)
            assert way.fault is not None or way.places == {"" if there == "." else there}


def test_kinds_and_modes_of_files_stay():
    assert broken(changed("a", before=FILE, after=PROGRAM)) == ["mode"]
    assert broken(changed("a", before=FILE, after=LINK, target="b")) == ["mode"]
    assert broken(changed("a", before=ABSENT, after=MODULE)) == ["submodule"]
    assert broken(changed("a", before=MODULE, after=ABSENT)) == ["submodule"]
    assert broken(changed("a", before=ABSENT, after="100600")) == ["mode"]


def test_too_many_or_too_large_files_are_refused_as_a_whole():
    many = [changed(f"{number}.py") for number in range(101)]
    assert [fault.code for fault in violations(many, {}, Rules())] == ["files"]
    assert [fault.code for fault in violations([changed("a", size=(16 << 20) + 1)], {}, Rules())] == ["size"]


@pytest.mark.parametrize(
    "line",
    [
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "token = 'ghp_" + "a1B2" * 9 + "'",
        "xoxb-" + "1234567890-" * 3 + "abc",
        "AKIA" + "ABCDEFGH23456765",
        "sk-ant-api03-" + "x" * 40,
        "sk-proj-" + "y" * 48,
        "https://hooks.slack.com/services/T0123/B0123/" + "z" * 24,
    ],
    ids=range(8),
)
def test_secrets_are_not_taken(line):
    assert broken(changed("a.py"), f"x = 1\n{line}\n") == ["secret"]


def test_a_secret_of_the_service_is_not_taken_wherever_it_stands():
    rules = Rules(known=lambda text: "hunter2hunter2" in text)
    assert broken(changed("a.py"), "p = 'hunter2hunter2'", rules) == ["secret"]
    for shows_it in (changed("hunter2hunter2.py"), link("a", "../hunter2hunter2")):
        (fault,) = violations([shows_it, changed("hunter2hunter2/.git/x")], {}, rules)
        assert fault.code == "secret"
        assert "hunter2" not in str(fault)


def test_what_git_says_of_a_change_is_read_whatever_the_name_holds():
    raw = (
        f":100644 000000 {OLD} {'0' * 40} D\0a\tb\0:000000 100644 {'0' * 40} {NEW} A\0".encode() + b"caf\xe9 \xf0\x9f\0"
    )
    assert [(one.path, one.before, one.after) for one in read_changes(raw)] == [
        ("a\tb", FILE, ABSENT),
        ("caf\udce9 \udcf0\udc9f", ABSENT, FILE),
    ]
    assert read_changes(b"") == []


@given(st.text(min_size=1, max_size=30))
def test_no_name_is_too_odd_to_be_judged_and_told(path):
    for fault in violations([changed(path)], {path: path}, Rules()):
        assert fault.path.isprintable()


@given(st.sampled_from(["claude.md", ".github", ".mcp.json"]), st.data())
def test_no_spelling_in_other_cases_gets_past(name, chosen):
    spelled = "".join(chosen.draw(st.sampled_from([letter, letter.upper()])) for letter in name)
    path = f"{spelled}/x" if name == ".github" else spelled
    assert protected_as(path) is not None
