"""Folders that agents leave, as deep and as locked as they please, are removed, and nothing beside them."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.tasks.workspace.trees import removed

DEPTH = 1_500
"""Deeper than a recursion or a path could go."""


def deepened(folder: Path, depth: int = DEPTH, name: str = "d" * 20) -> None:
    """Folders in each other, made as a shell makes them that goes into each."""
    opened = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=opened)
        inner = os.open(name, os.O_RDONLY, dir_fd=opened)
        os.close(opened)
        opened = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=opened))
    os.close(opened)


@pytest.fixture
def left(tmp_path: Path) -> Path:
    folder = tmp_path / "left"
    folder.mkdir()
    return folder


def test_folders_in_folders_are_removed_however_deep_they_go(left):
    deepened(left)
    removed(left)
    assert not left.exists()


def test_no_link_is_followed_and_nothing_beside_is_touched(left, tmp_path):
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "kept").write_text("x")
    (outside / "inner").chmod(0o500)
    (left / "to-folder").symlink_to(outside)
    (left / "to-file").symlink_to(outside / "kept")
    (left / "a").mkdir()
    (left / "a" / "locked").symlink_to(outside / "inner")
    (left / "a" / "again").symlink_to(left)
    os.mkfifo(left / "a" / "pipe")
    os.link(outside / "kept", left / "a" / "same")
    removed(left)
    assert not left.exists()
    assert (outside / "kept").read_text() == "x"
    assert (outside / "inner").stat().st_mode & 0o777 == 0o500


def test_a_link_in_place_of_the_folder_goes_and_what_it_leads_to_stays(left, tmp_path):
    (left / "kept").touch()
    (tmp_path / "link").symlink_to(left)
    removed(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (left / "kept").exists()
    removed(left / "kept")
    removed(left / "kept" / "gone")
    removed(left / "gone" / "gone")
    assert list(left.iterdir()) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.sampled_from("abc"), st.booleans())))
def test_any_tree_goes_whatever_the_rights_to_it(paths):
    with tempfile.TemporaryDirectory() as around:
        top = Path(around) / "top"
        top.mkdir()
        for *parts, locked in paths:
            place = top.joinpath(*parts)
            place.mkdir(parents=True, exist_ok=True)
            (place / "file").touch()
            if locked:
                place.chmod(0o700)
        for *parts, locked in paths:
            if locked:
                top.joinpath(*parts).chmod(0)
        removed(top)
        assert list(Path(around).iterdir()) == []


def test_what_cannot_be_removed_is_told_and_keeps_nobody_from_going_on(left, monkeypatch, caplog):
    (left / "a" / "stays").mkdir(parents=True)
    (left / "b" / "goes").mkdir(parents=True)
    rmdir = os.rmdir

    def stubborn(name: str, *, dir_fd: int | None = None) -> None:
        if name == "a":
            raise PermissionError(1, "Operation not permitted")
        rmdir(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", stubborn)
    removed(left)
    assert [one.name for one in left.iterdir()] == ["a"]
    assert "Operation not permitted" in caplog.text
