"""A git server on loopback: `git http-backend` as a CGI behind aiohttp, which lets in who has a token.

Repositories are bare, in a folder; what is pushed really arrives there.
"""

import asyncio
import base64
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from aiohttp import web


class GitRemote:
    """Serves `/{owner}/{name}.git`. `lets_in` is asked with each token, `pushed` is called after each push.
    While `holding` is there it is set by whoever asks, and nobody is answered."""

    def __init__(self, folder: Path, lets_in: Callable[[str], bool]) -> None:
        self.folder = folder
        self._lets_in = lets_in
        self.calls: Counter[str] = Counter()
        self.pushed: Callable[[], None] | None = None
        self.holding: asyncio.Event | None = None

    def create(self, name: str, files: Mapping[str, str | bytes], branch: str = "main") -> str:
        """A repository with one commit; its sha."""
        bare, tree = self.bare(name), self.folder / "made" / name
        tree.mkdir(parents=True)
        git("init", "-q", f"--initial-branch={branch}", ".", folder=tree)
        for path, content in files.items():
            place = tree / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        git("add", "-A", folder=tree)
        git("commit", "-q", "-m", "Begin", folder=tree)
        bare.parent.mkdir(parents=True, exist_ok=True)
        git("clone", "-q", "--bare", str(tree), str(bare), folder=self.folder)
        git("config", "http.receivepack", "true", folder=bare)
        return git("rev-parse", branch, folder=bare)

    def commit(self, name: str, path: str, content: str, branch: str = "main") -> str:
        """One more commit by somebody else; its sha."""
        tree = self.folder / "made" / name
        (tree / path).write_text(content)
        git("add", "-A", folder=tree)
        git("commit", "-q", "-m", f"Change {path}", folder=tree)
        git("push", "-q", str(self.bare(name)), f"HEAD:refs/heads/{branch}", folder=tree)
        return git("rev-parse", "HEAD", folder=tree)

    def moved(self, name: str, branch: str, words: str = "By somebody else") -> str:
        """One more commit of the same files on a branch, by somebody else; its sha."""
        bare = self.bare(name)
        sha = git("commit-tree", f"{branch}^{{tree}}", "-p", branch, "-m", words, folder=bare)
        git("update-ref", f"refs/heads/{branch}", sha, folder=bare)
        return sha

    def removed(self, name: str, branch: str) -> None:
        """A branch, by somebody."""
        git("update-ref", "-d", f"refs/heads/{branch}", folder=self.bare(name))

    def advance(self, name: str, branch: str, base: str = "main") -> None:
        """The base branch to another that it is behind, as a merge does."""
        git("update-ref", f"refs/heads/{base}", branch, folder=self.bare(name))

    def subjects(self, name: str, branch: str) -> list[str]:
        """What the commits of a branch that main lacks are called, the oldest first."""
        return git("log", "--reverse", "--format=%s", f"main..{branch}", folder=self.bare(name)).splitlines()

    def bare(self, name: str) -> Path:
        """Where a repository lies."""
        return self.folder / f"{name}.git"

    def branches(self, name: str) -> list[str]:
        """Its branches."""
        return git("for-each-ref", "--format=%(refname:short)", "refs/heads", folder=self.bare(name)).split()

    def show(self, name: str, what: str) -> str:
        """The text of an object, such as `loops/x:README.md`."""
        return git("show", what, folder=self.bare(name))

    def changed(self, name: str, branch: str, base: str = "main") -> list[str]:
        """Which files a branch changes, as `M README.md`."""
        told = git("diff", "--name-status", "--no-renames", f"{base}...{branch}", folder=self.bare(name))
        return [" ".join(line.split()) for line in told.splitlines()]

    def routes(self) -> list[web.RouteDef]:
        """What it answers."""
        return [web.route("*", "/{owner}/{name}.git/{rest:.*}", self.answer)]

    async def answer(self, request: web.Request) -> web.Response:
        """As the CGI says."""
        authorization = request.headers.get("Authorization", "")
        if not self._lets_in(_token(authorization)):
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        if self.holding is not None:
            self.holding.set()
            await asyncio.sleep(60)
        service = request.query.get("service") or request.match_info["rest"]
        self.calls[service] += 1
        with tempfile.TemporaryFile() as sent:
            sent.write(await request.read())
            sent.seek(0)
            process = await asyncio.create_subprocess_exec(
                "git",
                "http-backend",
                env=self._environment(request),
                stdin=sent.fileno(),
                stdout=asyncio.subprocess.PIPE,
            )
        out, _ = await process.communicate()
        if service == "git-receive-pack" and request.method == "POST" and self.pushed is not None:
            self.pushed()
        head, _, body = out.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, body=body, headers=headers)

    def _environment(self, request: web.Request) -> dict[str, str]:
        given = {
            "PATH": "/usr/bin:/bin",
            "GIT_PROJECT_ROOT": str(self.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "REMOTE_USER": "somebody",
            "REQUEST_METHOD": request.method,
            "QUERY_STRING": request.query_string,
            "PATH_INFO": request.path,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        }
        if request.headers.get("Content-Encoding"):
            given["HTTP_CONTENT_ENCODING"] = request.headers["Content-Encoding"]
        return given


def _token(authorization: str) -> str:
    scheme, _, credential = authorization.partition(" ")
    return base64.b64decode(credential).decode().partition(":")[2] if scheme == "Basic" else ""


def git(*arguments: str, folder: Path) -> str:
    """What git says in a folder of the tests' own."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        **{f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _ADA.items()},
    }
    ran = subprocess.run(("git", *arguments), cwd=folder, env=environment, capture_output=True, check=False)
    assert ran.returncode == 0, (arguments, ran.stderr.decode())
    return ran.stdout.decode().strip()


_ADA = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": "2026-11-30T12:00:00Z"}
