"""The folders that tasks on repositories work in."""

import pytest

from loops.errors import ConfigError
from server.repositories import _folders


def test_others_may_pass_through_to_what_is_theirs_and_list_nothing(tmp_path):
    made = _folders(tmp_path / "work")
    modes = {name: path.stat().st_mode & 0o777 for name, path in made.items()}
    assert modes == {"home": 0o700, "cache": 0o711, "tasks": 0o711, "patches": 0o700}
    assert _folders(tmp_path / "work") == made


def test_a_work_folder_that_cannot_be_made_is_told_by_its_setting(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match=r"LOOPS_WORK_DIR: .* cannot be written"):
        _folders(tmp_path / "file")
