"""Create or update a Hugging Face Space that serves one model.

The Space runs this installation's code: the package, and `app.py`, `requirements.txt` and the head
of the README from the checkout or the wheel. From a checkout it gets `training` too, for its owner.
"""

import re
from pathlib import Path

from huggingface_hub import HfApi, SpaceCard, constants, get_token

from hubnmt.checkpoint.files import PRETRAINED, bundled_models
from hubnmt.errors import HubError
from hubnmt.hub.client import connect, open_repo, parse_reference, read_repo, readable_errors
from hubnmt.hub.pull import check_files
from hubnmt.hub.push import Content, Pushed, commit

PACKAGE = Path(__file__).parents[1]
WHEEL_FILES = PACKAGE / "hub" / "space_files"
"""Location of files beside the package in a wheel; see pyproject.toml."""

EXCLUDED = {"__pycache__", "pretrained", "space_files"}
"""Folders of the package that are not uploaded; the served bundled model is added separately."""

KINDS = {".py", ".typed", ".md", ".html", ".css", ".js", ".png", ".tsv"}
"""Suffixes of the package files that are uploaded."""

OURS = re.compile(r"(app\.py|requirements\.txt|README\.md|(hubnmt|training)/.+)")
"""Files of a Space that may be replaced or removed; others belong to its owner."""

VARIABLE, SECRET = "HUBNMT_MODEL", "HF_TOKEN"


def open_space(
    repo: str,
    model: str,
    *,
    private: bool = False,
    public: bool = False,
    with_token: bool = False,
    token: str | None = None,
) -> Pushed:
    """Create or update a Space `user/name` that serves a bundled model or one of the Hub.

    A new Space is private with `private`; an existing public one is then refused. `with_token`
    stores the token as a secret of the Space, to read a private or gated model. Such a Space must
    be private as well, unless `public` allows everybody to use the model.

    Raises:
        HubError: if a Space cannot load the model, or the Hub refuses.
    """
    api = connect(token, write=True)
    with readable_errors(model):
        is_closed = _is_closed(api, model, with_token=with_token)
    with readable_errors(f"Space {repo}"):
        private = private or (is_closed and not public)
        info = open_repo(api, repo, kind="space", private=private)
        # Variable and secret first: the commit starts the build, which reads them.
        variable = api.get_space_variables(repo).get(VARIABLE)
        if variable is None or variable.value != model:
            api.add_space_variable(repo, VARIABLE, model)
        if with_token:
            api.add_space_secret(repo, SECRET, token or get_token() or "")
        message = f"Serve {model} with hubnmt"
        return commit(api, info, collect(repo, model), is_ours=OURS.fullmatch, message=message)


def _is_closed(api: HfApi, model: str, *, with_token: bool) -> bool:
    """Check that a Space can load the model, and return whether the model is private or gated."""
    if model in bundled_models():
        return False
    reference = None if Path(model).expanduser().is_dir() else parse_reference(model)
    if reference is None:
        raise HubError(
            f"{model!r} is a local folder, which a Space cannot read: "
            "push it first (hubnmt push DIR USER/NAME), then name it as USER/NAME"
        )
    info = read_repo(api, reference.repo, reference.revision)
    check_files({file.rfilename: file.size for file in info.siblings or ()}, model)
    is_closed = bool(info.private or info.gated)
    if is_closed and not with_token:
        raise HubError(
            f"{model} is {'private' if info.private else 'gated'}, and the Space has no token to "
            "read it: add --with-token (in the page: Private) to store yours, better one that can "
            "read only this model"
        )
    return is_closed


# --- contents of a Space ---


def collect(repo: str, model: str) -> dict[str, Content]:
    """Collect the files of the Space, by their name in it."""
    contents: dict[str, Content] = {
        "app.py": find_beside("app.py"),
        "requirements.txt": find_beside("requirements.txt"),
        "README.md": write_readme(repo, model).encode(),
    }
    # In site-packages, a package `training` would be another's.
    is_checkout = (PACKAGE.parent / "pyproject.toml").is_file()
    for package in [PACKAGE, PACKAGE.parent / "training"][: 1 + is_checkout]:
        for path in sorted(package.rglob("*")):
            inside = path.relative_to(PACKAGE.parent)
            if path.suffix in KINDS and path.is_file() and not EXCLUDED & set(inside.parts):
                contents[inside.as_posix()] = path
    if model in bundled_models():
        for path in sorted((PRETRAINED / model).iterdir()):
            contents[f"hubnmt/pretrained/{model}/{path.name}"] = path
    return contents


def find_beside(name: str) -> Path:
    """Find a file next to the package (checkout) or inside it (wheel)."""
    is_checkout = (PACKAGE.parent / "pyproject.toml").is_file()
    path = (PACKAGE.parent if is_checkout else WHEEL_FILES) / name
    if not path.is_file():
        raise HubError(f"this installation of hubnmt has no {name}: reinstall it from a wheel")
    return path


PICTURE = "hubnmt/ui/assets/share.png"
"""Shown with a link to the Space."""


def write_readme(repo: str, model: str) -> str:
    """Return the README of the Space: the head of ours, with its build settings, and a sentence."""
    card = SpaceCard(find_beside("README.md").read_text("utf-8"))
    card.data["title"] = repo.partition("/")[2]
    card.data["thumbnail"] = f"{constants.ENDPOINT}/spaces/{repo}/resolve/main/{PICTURE}"
    if model not in bundled_models() and (reference := parse_reference(model)):
        card.data["models"] = [reference.repo]
    card.text = (
        f"\nTranslates with `{model}` and shows its attention weights.\n"
        "Created by `hubnmt space`; run it again to update.\n"
    )
    return str(card)
