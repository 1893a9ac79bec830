"""The files that no agent's change may touch: what runs by itself, what agents obey, and who has to review. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache

from loops.tasks.workspace.names import plain

PROTECTED: Mapping[str, Sequence[str]] = {
    "continuous integration": (
        ".github/*", ".gitlab-ci*", ".gitlab/*", ".circleci/*", ".buildkite/*", ".azure-pipelines*",
        "azure-pipelines*", ".travis.y*ml", "appveyor.y*ml", ".appveyor.y*ml", ".drone.y*ml", ".woodpecker*",
        "jenkinsfile*", "bitbucket-pipelines.y*ml", ".teamcity/*", ".semaphore/*", ".forgejo/*", ".gitea/*",
        "cloudbuild.y*ml", "*/action.y*ml", "action.y*ml", ".cirrus.*", ".tekton/*", ".ci/*", ".builds/*",
        ".build.y*ml", ".pipelines/*", "codefresh.y*ml", ".codefresh/*", "buildspec.y*ml", "bitrise.y*ml",
        "codemagic.y*ml", "wercker.y*ml", ".harness/*", "screwdriver.y*ml", ".prow.y*ml", ".prow/*", ".zuul.*",
        "zuul.d/*", ".packit.y*ml", ".kokoro/*", ".mergify.y*ml", ".mergify/*", "renovate.json*", ".renovaterc*",
        "netlify.toml", "vercel.json", "render.y*ml", "amplify.y*ml", ".readthedocs.y*ml", ".gitpod.*",
    ),
    "instructions of agents": (
        "claude.md", "claude.local.md", "agent.md", "agents.md", "agents.override.md", "gemini.md", "qwen.md",
        "warp.md", "crush.md", "replit.md", "copilot-instructions.md", "*.instructions.md", "*.prompt.md",
        "*.chatmode.md", ".claude/*", ".claude-plugin/*", "mcp.json", ".mcp.json", ".cursor/*", ".cursorrules",
        ".windsurf/*", ".windsurfrules", ".codex/*", ".agents/*", ".agent/*", ".gemini/*", ".qwen/*", ".clinerules*",
        ".cline/*", ".roo/*", ".roorules*", ".roomodes", ".aider*", ".kiro/*", ".continue/*", ".continuerules",
        ".opencode/*", "opencode.json*", ".junie/*", ".goosehints", ".goose/*", ".amazonq/*", ".kilocode/*",
        ".kilocodemodes", ".augment/*", ".augment-guidelines", ".trae/*", ".crush.json", "crush.json", ".factory/*",
        ".openhands/*", ".devin/*", ".jules/*", ".amp/*", ".rules", ".rulesync/*", ".ruler/*", ".coderabbit.y*ml",
        ".sourcery.y*ml", ".pr_agent.toml", "greptile.json", ".greptile/*", "skill.md", "/skills/*",
    ),
    "settings of git": (".gitmodules", ".gitattributes", ".gitconfig", ".lfsconfig", ".githooks/*", ".git-hooks/*"),
    "hooks and settings of tools": (
        ".husky/*", ".huskyrc*", ".pre-commit-config.y*ml", ".pre-commit-hooks.y*ml", "lefthook*.y*ml",
        ".lefthook*.y*ml", ".lefthook/*", ".overcommit.y*ml", ".simple-git-hooks.*", ".lintstagedrc*",
        "lint-staged.config.*", ".npmrc", ".yarnrc*", ".yarn/*", ".pnpmfile.*", "pnpmfile.*", "bunfig.toml",
        ".pypirc", "pip.conf", "pip.ini", "uv.toml", ".condarc", ".bundle/config", ".cargo/config",
        ".cargo/config.toml", ".mvn/*", "gradle-wrapper.*", "nuget.config", ".bazelrc", ".envrc", "mise.toml",
        "mise.*.toml", ".mise.toml", ".mise.*.toml", "mise/config*.toml", ".mise/*",
        ".devcontainer/*", ".devcontainer.json", "devfile.y*ml",
        ".devfile.y*ml", "devbox.json", ".replit", ".idx/*", ".codesandbox/*", ".vscode/*", "*.code-workspace",
        ".idea/*", ".run/*", ".fleet/*", ".zed/*", "*.sublime-project", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua",
        ".dir-locals*.el", ".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".pryrc",
    ),
    "code owners": ("codeowners", "owners", "owners_aliases"),
}  # fmt: skip
"""Files that no agent's change may touch, wherever they stand (with a slash in front: at the root alone). Names are
compared without case."""

_OPERATORS = "files that this service protects"


def protected_as(path: str, more: Sequence[str] = (), *, link: bool = False) -> str | None:
    """The kind of protected file that a path is; None for the others. `more` are further patterns. A `link` is one
    already where something protected could stand below it."""
    name = plain(path)
    for kind, patterns in (*PROTECTED.items(), (_OPERATORS, more)):
        if patterns and _matching(tuple(patterns), link).match(name) is not None:
            return kind
    return None


@lru_cache(maxsize=32)
def _matching(patterns: tuple[str, ...], link: bool) -> "re.Pattern[str]":
    wanted = [pattern for one in patterns for pattern in _spelled(one.lower(), link)]
    return re.compile("|".join(translate(one) for one in wanted))


def _spelled(pattern: str, link: bool) -> Iterator[str]:
    """As whole paths are compared with it."""
    parts = pattern.removeprefix("/").split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts))] if link else []
    for one in (*above, "/".join(parts)):
        if one.strip("*/"):  # any folder at all may hold something of the name
            yield one
            if not pattern.startswith("/"):
                yield f"*/{one}"
