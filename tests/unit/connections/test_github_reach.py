import pytest

from loops.connections.github_reach import home_of


@pytest.mark.parametrize(
    ("clone_url", "home"),
    [
        ("https://github.com/acme/widgets.git", ""),
        ("https://Git.acme.example/acme/widgets.git", "git.acme.example"),
        ("http://127.0.0.1:8443/acme/widgets.git", "127.0.0.1:8443"),
    ],
)
def test_the_host_of_its_pages_is_known_where_it_is_another_github(clone_url: str, home: str) -> None:
    assert home_of(clone_url) == home
