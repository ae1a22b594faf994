"""A Space on the Hub that serves the page with one model.

Takes a model reference, gives the address of the Space. Must not know Gradio. The files are those
of this very installation: `app.py` and `requirements.txt` of the checkout, or the copies that a
wheel carries, and the package itself.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import RepositoryNotFoundError

from hubnmt.checkpoint.folder import LIBRARY, PRETRAINED, bundled_models
from hubnmt.errors import HubError
from hubnmt.hub.client import RepoState, connect, plain_words, read_repo, retry
from hubnmt.hub.pull import choose_files
from hubnmt.hub.push import CommitRequest, Content, commit
from hubnmt.hub.reference import MAIN, check_repo, parse_reference

PACKAGE = Path(__file__).parents[1]
CARRIED = PACKAGE / "hub" / "space_files"
"""Where a wheel has `app.py` and `requirements.txt`; see pyproject.toml."""

LEFT_OUT = {"__pycache__", "pretrained", "space_files"}
"""Folders of the package a Space does without; the bundled model it serves comes apart."""

KINDS = {".py", ".typed", ".md", ".html", ".css", ".js", ".png"}
"""Files of the package a Space needs; an editor's or a person's own beside them stay here."""

OURS = re.compile(r"(app\.py|requirements\.txt|README\.md|hubnmt/.+)")
"""What in a Space is ours to replace or remove; other files in it are its owner's."""

APPS = {"app.py", "Dockerfile", "index.html"}
"""A Space with one of these serves something already."""

VARIABLE, SECRET = "HUBNMT_MODEL", "HF_TOKEN"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A Space that serves a model."""

    url: str
    commit: str
    changed: tuple[str, ...]
    """Names sent or removed; empty if it was so already."""


def open_space(
    repo: str,
    model: str,
    *,
    private: bool = False,
    with_token: bool = False,
    token: str | None = None,
) -> Opened:
    """Make or update a Space that serves a model; asked twice, the second time changes nothing.

    Args:
        repo: `user/name` of the Space.
        model: bundled name or Hub reference.
        private: make a new Space private; one that is public is refused.
        with_token: give the Space our token as its secret, to read a private or gated model.
        token: None takes `HF_TOKEN` or the login.

    Raises:
        HubError: if the model cannot be served from there, or the Hub refuses.
    """
    check_repo(repo)
    api = connect(token)
    if with_token and not (token or get_token()):
        raise HubError("there is no token to give the Space: set HF_TOKEN or run `hf auth login`")
    with plain_words(model):
        _check_model(api, model, with_token=with_token)
    with plain_words(f"Space {repo}"):
        state = _prepare(api, repo, private=private)
        if private and not state.is_private:
            raise HubError(f"Space {repo} is public: make it private in its settings, then again")
        if APPS & set(state.files) and LIBRARY not in state.tags:
            raise HubError(f"Space {repo} serves another app: name a new one, or empty it first")
        # Variable and secret first: the commit starts the build, which reads them.
        if _variables(api, repo).get(VARIABLE) != model:
            retry(lambda: api.add_space_variable(repo, VARIABLE, model))
        if with_token:
            retry(lambda: api.add_space_secret(repo, SECRET, token or get_token() or ""))
        contents = collect(repo, model)
        request = CommitRequest(
            repo=repo,
            kind="space",
            revision=MAIN,
            contents=contents,
            unwanted=[n for n in state.files if OURS.fullmatch(n) and n not in contents],
            message=f"Serve {model} with hubnmt",
        )
        done = commit(api, request, state)
    url = f"{api.endpoint}/spaces/{repo}"
    return Opened(url=url, commit=done.commit, changed=done.changed)


def _check_model(api: HfApi, model: str, *, with_token: bool) -> None:
    """Refuse a model the Space could not open.

    Raises:
        HubError: with the remedy.
    """
    if model in bundled_models():
        return
    reference = None if Path(model).expanduser().is_dir() else parse_reference(model)
    if reference is None:
        raise HubError(
            f"{model!r} is only on this machine, where a Space cannot reach it: "
            "push it first (hubnmt push DIR USER/NAME), then name it as USER/NAME"
        )
    state = read_repo(api, reference.repo, reference.revision)
    sizes = {name: file.size for name, file in state.files.items()}
    library = None if LIBRARY in state.tags else state.library
    choose_files(sizes, target=model, library=library)
    if (state.is_private or state.is_gated) and not with_token:
        kind = "private" if state.is_private else "gated"
        raise HubError(
            f"{model} is {kind}, and the Space has no token to read it: add --with-token to give "
            "it yours as a secret (best one that may read only this model)"
        )


def _prepare(api: HfApi, repo: str, *, private: bool) -> RepoState:
    try:
        return read_repo(api, repo, MAIN, kind="space")
    except RepositoryNotFoundError:
        retry(
            lambda: api.create_repo(
                repo, repo_type="space", space_sdk="gradio", private=private or None, exist_ok=True
            )
        )
    return read_repo(api, repo, MAIN, kind="space")


def _variables(api: HfApi, repo: str) -> Mapping[str, str]:
    found = retry(lambda: api.get_space_variables(repo))
    return {key: variable.value for key, variable in found.items()}


# --- what a Space holds ---


def collect(repo: str, model: str) -> dict[str, Content]:
    """List everything the Space needs, by its name there."""
    contents: dict[str, Content] = {
        "app.py": find_beside("app.py"),
        "requirements.txt": find_beside("requirements.txt"),
    }
    requirements = find_beside("requirements.txt").read_text("utf-8")
    contents["README.md"] = write_readme(repo, model, requirements).encode()
    for path in sorted(PACKAGE.rglob("*")):
        inside = path.relative_to(PACKAGE)
        if path.suffix in KINDS and path.is_file() and not LEFT_OUT & set(inside.parts):
            contents[f"hubnmt/{inside.as_posix()}"] = path
    if model in bundled_models():
        for path in sorted((PRETRAINED / model).iterdir()):
            contents[f"hubnmt/pretrained/{model}/{path.name}"] = path
    return contents


def find_beside(name: str) -> Path:
    """Find a file that lies beside the package in a checkout, and inside it in a wheel.

    Raises:
        HubError: if this installation has neither.
    """
    homes = [PACKAGE.parent / name] if (PACKAGE.parent / "pyproject.toml").is_file() else []
    for path in (*homes, CARRIED / name):
        if path.is_file():
            return path
    raise HubError(f"this installation of hubnmt has no {name}: install it from a wheel again")


def write_readme(repo: str, model: str, requirements: str) -> str:
    """Write the Space's front matter, which the Hub builds it by, and a few words."""
    gradio = re.search(r"^gradio==(\S+)$", requirements, re.MULTILINE)
    reference = None if model in bundled_models() else parse_reference(model)
    lines = [
        "---",
        f"title: {json.dumps(repo.partition('/')[2])}",
        "emoji: 🗣️",
        "colorFrom: indigo",
        "colorTo: yellow",
        "sdk: gradio",
        *([f'sdk_version: "{gradio[1]}"'] if gradio else []),
        'python_version: "3.11"',
        "app_file: app.py",
        "license: apache-2.0",
        "short_description: Small translation models that show their attention",
        *([f"models:\n- {json.dumps(reference.repo)}"] if reference else []),
        "tags:\n- hubnmt\n- translation",
        "---",
        "",
        f"Translates with `{model}`, and shows where the model looked while it did.",
        "Made by `hubnmt space`; run it again to bring it up to date.",
        "",
    ]
    return "\n".join(lines)
