"""The service opens what an agent has made, and nothing of it leads the service astray."""

import os
from pathlib import Path

import pytest

from loops.tasks.workspace import files as module
from loops.tasks.workspace.files import Entry, FileFault, Files


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "src").mkdir(parents=True)
    (folder / "src/app.py").write_text("print('hello')\n")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("[core]\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("of the service")
    return folder


@pytest.fixture
def files(checkout: Path) -> Files:
    return Files(checkout)


@pytest.mark.parametrize("path", ["src/app.py", "./src//app.py", "/workspace/src/app.py"])
def test_a_file_is_read_by_its_path_in_the_checkout(files: Files, path: str) -> None:
    assert files.read(path) == b"print('hello')\n"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../outside/secret", "BAD_PATH"),
        ("src/../../outside/secret", "BAD_PATH"),
        ("/etc/passwd", "BAD_PATH"),
        ("/workspaces/x", "BAD_PATH"),
        ("src/app.py\0.txt", "BAD_PATH"),
        ("", "NOT_A_FILE"),
        ("src", "NOT_A_FILE"),
        ("gone", "NOT_FOUND"),
        ("gone/app.py", "NOT_FOUND"),
        ("src/app.py/x", "NOT_A_FOLDER"),
        ("n" * 300, "CANNOT"),
    ],
)
def test_a_path_to_no_file_of_the_checkout_is_refused(files: Files, path: str, reason: str) -> None:
    with pytest.raises(FileFault) as fault:
        files.read(path)
    assert fault.value.reason == reason


def test_links_are_not_followed_wherever_they_stand(files: Files, checkout: Path) -> None:
    (checkout / "file").symlink_to("../outside/secret")
    (checkout / "folder").symlink_to("../outside")
    (checkout / "inner").symlink_to("src/app.py")
    for path, reason in [("file", "IS_LINK"), ("folder/secret", "NOT_A_FOLDER"), ("inner", "IS_LINK")]:
        for use in (files.read, lambda one: files.write(one, b"written")):
            with pytest.raises(FileFault) as fault:
                use(path)
            assert fault.value.reason == reason
    with pytest.raises(FileFault):
        files.write("folder/new", b"written")
    with pytest.raises(FileFault):
        list(files.entries("folder", 1))
    outside = checkout.parent / "outside"
    assert [one.name for one in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "of the service"


def test_a_pipe_is_not_waited_for(files: Files, checkout: Path) -> None:
    os.mkfifo(checkout / "pipe")
    with pytest.raises(FileFault, match="plain file"):
        files.read("pipe")
    with pytest.raises(FileFault, match="plain file"):
        files.write("pipe", b"x")


def test_what_is_too_large_is_not_read(files: Files, checkout: Path) -> None:
    with (checkout / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileFault) as fault:
        files.read("sparse")
    assert fault.value.reason == "TOO_LARGE"


def test_a_file_is_written_with_the_folders_that_it_needs(files: Files, checkout: Path) -> None:
    files.write("a/b/new.txt", b"new")
    assert (checkout / "a/b/new.txt").read_bytes() == b"new"
    assert [one.name for one in (checkout / "a/b").iterdir()] == ["new.txt"]


def test_a_file_that_is_written_again_keeps_its_permissions_and_no_other_name_of_it_changes(
    files: Files, checkout: Path
) -> None:
    (checkout / "run.sh").write_text("old")
    (checkout / "run.sh").chmod(0o4755)
    os.link(checkout / "run.sh", checkout / "second")
    files.write("run.sh", b"new")
    assert (checkout / "run.sh").read_text() == "new"
    assert (checkout / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (checkout / "second").read_text() == "old"


def test_what_is_written_belongs_to_whom_the_checkout_belongs(files: Files, checkout: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(checkout, 4711, 4712)
    files.write("a/new", b"new")
    assert {(one.stat().st_uid, one.stat().st_gid) for one in (checkout / "a", checkout / "a/new")} == {(4711, 4712)}


@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/x", "sub/.git/config", "sub/.git"])
def test_what_git_obeys_is_not_written(files: Files, path: str) -> None:
    with pytest.raises(FileFault) as fault:
        files.write(path, b"x")
    assert fault.value.reason == "BAD_PATH"


def test_a_folder_is_listed_as_deep_as_asked_for_and_without_git(files: Files, checkout: Path) -> None:
    (checkout / "link").symlink_to("/")
    os.mkfifo(checkout / "pipe")
    assert list(files.entries("", 1)) == [Entry("link", "link"), Entry("pipe", "other"), Entry("src", "folder")]
    assert list(files.entries("", 3))[-1] == Entry("src/app.py", "file", 15)
    assert list(files.entries("/workspace/src/", 1)) == [Entry("src/app.py", "file", 15)]


@pytest.mark.parametrize("path", ["d/" * 1500 + "x", "/workspace/" + "d/" * 101, "long/" * 90 + "n" * 2600])
def test_a_path_that_is_too_deep_or_too_long_makes_no_folder(files: Files, checkout: Path, path: str) -> None:
    for use in (files.read, lambda one: files.write(one, b"x"), lambda one: list(files.entries(one, 1))):
        with pytest.raises(FileFault) as fault:
            use(path)
        assert fault.value.reason == "BAD_PATH"
    assert not (checkout / "d").exists()
    assert not (checkout / "long").exists()


def test_of_a_folder_with_too_many_names_so_many_are_looked_at(
    files: Files, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("", "src/"):
        for number in range(30):
            (checkout / f"{place}{number:02}").touch()
    monkeypatch.setattr(module, "MOST_SEEN", 40)
    found = [one.path for one in files.entries("", 6)]
    assert len(found) == 39  # and .git
    assert found == sorted(found)
