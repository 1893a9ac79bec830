"""What an agent changed, read out of its sandbox as text.

git runs inside the sandbox and nowhere else in that tree. It is given a folder of its own in place of the checkout's
`.git`: what the agent put there (settings, hooks, filters, an index, another history) plays no part, and could act
inside the sandbox alone if it did. What comes back is data from a stranger.
"""

from loops.errors import Fault, PatchRefused, RepositoryError
from loops.tasks.workspace.sandbox import Command, Ran, Sandbox

MOST_PATCH = 4 << 20
"""Bytes of a patch that is taken."""
SECONDS = 120.0

_SCRIPT = """\
set -eu
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
unset GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE
unset GIT_EXTERNAL_DIFF GIT_ATTR_SOURCE GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS
export HOME="$own" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 LC_ALL=C
git init -q --bare --template= "$own/git"
mkdir -p "$own/git/objects/info"
printf '%s\\n' "$2" > "$own/git/objects/info/alternates"
export GIT_DIR="$own/git" GIT_WORK_TREE="$PWD"
set -- "$1" -c core.fileMode=true -c core.symlinks=true -c core.autocrlf=false -c core.safecrlf=false
base=$1
shift
git "$@" read-tree "$base"
git "$@" add -A -- . >&2
git "$@" diff --cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv \\
  --src-prefix=a/ --dst-prefix=b/ "$base" --
"""


async def exported(sandbox: Sandbox, sha: str, objects: str) -> bytes:
    """The patch from the commit `sha` to what stands in the sandbox's checkout; empty where nothing was changed.

    `objects` is where the sandbox finds the objects of the base. Raises PatchRefused for what is too large, and
    RepositoryError where the tree cannot be read.
    """
    ran = await sandbox.run(Command(("/bin/sh", "-c", _SCRIPT, "export", sha, objects), seconds=SECONDS))
    if ran.lost or len(ran.stdout) > MOST_PATCH:
        raise too_large(ran)
    if ran.code or ran.stopped:
        said = " ".join(ran.stderr.decode("utf-8", "replace").split())[-500:]
        why = f"it was stopped ({ran.stopped})" if ran.stopped else said or f"git ended with {ran.code}"
        hint = "files that nobody can read, a repository inside the repository, or too much of both"
        raise RepositoryError(f"the changes cannot be read out of the checkout: {why}", hint=hint)
    return ran.stdout


def too_large(ran: Ran) -> PatchRefused:
    """What is said of a patch that nobody would read."""
    told = f"the changes come to {len(ran.stdout) + ran.lost} bytes; {MOST_PATCH} are taken"
    hint = "ask for less at once, and see that no built or downloaded files are added"
    return PatchRefused([Fault(".", told, hint, "size")])
