from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from gradio.context import LocalContext

from hubnmt.ui.gradio.train_tab import may_train, tab_kind
from hubnmt.ui.services.registry import ModelRegistry
from tests.page import load


def _registry(*, is_own: bool) -> ModelRegistry:
    return ModelRegistry(load, {"own": Path("own")}, allow_local=is_own)


@pytest.mark.parametrize(
    ("wish", "is_own", "kind"),
    [
        ("", True, "working"),
        ("0", True, "absent"),
        ("", False, "explained"),
        ("1", False, "working"),
    ],
)
def test_the_tab_works_on_a_page_of_ones_own_and_where_it_is_allowed(
    wish: str, is_own: bool, kind: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HUBNMT_TRAIN", wish)
    assert tab_kind(_registry(is_own=is_own)) == kind


def test_on_a_space_only_its_owner_trains(monkeypatch: pytest.MonkeyPatch):
    assert may_train()
    monkeypatch.setenv("SPACE_AUTHOR_NAME", "school")
    assert not may_train()
    for user, is_allowed in (
        ({"preferred_username": "guest"}, False),
        ({"preferred_username": "school"}, True),
        ({"preferred_username": "guest", "orgs": [{"preferred_username": "school"}]}, True),
    ):
        session = {"oauth_info": {"userinfo": user, "access_token": "secret"}}
        request: Any = SimpleNamespace(request=SimpleNamespace(scope={"session": session}))
        token = LocalContext.request.set(request)
        assert may_train() == is_allowed
        LocalContext.request.reset(token)
