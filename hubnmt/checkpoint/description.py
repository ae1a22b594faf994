"""Configuration of a model folder, read without its weights; the bundled models."""

from pathlib import Path
from typing import Any, TypeVar

from hubnmt.checkpoint.files import CONFIG, read_json
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError, InputError, ModelFolderError

FORMAT_VERSION = 1
LIBRARY = "hubnmt"
PRETRAINED = Path(__file__).parents[1] / "pretrained"

ConfigT = TypeVar("ConfigT", ModelConfig, DecodingConfig)


def bundled_models() -> dict[str, Path]:
    """Return the models bundled with the package, name to folder, sorted by name."""
    return {
        folder.parent.name: folder.parent for folder in sorted(PRETRAINED.glob("*/config.json"))
    }


def check_place(folder: Path) -> None:
    """Raise an `InputError` if saving a model to a folder would overwrite other files."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()):
        try:  # the field, because other libraries use the same file names
            library = read_json(folder / CONFIG).get("library")
        except ModelFolderError:
            library = None
        if library != LIBRARY:
            raise InputError(
                f"{folder} contains other files and no {LIBRARY} model; name an empty or a new "
                "folder"
            )


def load_config(folder: Path) -> ModelConfig:
    """Load and validate `config.json`.

    Raises:
        ModelFolderError: if it is missing, invalid, of another library, or of a newer format.
    """
    path = folder / CONFIG
    values = read_json(path)
    if values.pop("library", None) != LIBRARY:
        raise ModelFolderError(
            f"{path}: 'library' is not {LIBRARY!r}; this is a model of another library"
        )
    version = values.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise ModelFolderError(
            f"{path}: format_version {version!r} is not {FORMAT_VERSION}; "
            "update hubnmt or save the model again"
        )
    return parse_config(ModelConfig, values, path)


def parse_config(cls: type[ConfigT], values: Any, path: Path) -> ConfigT:
    """Build a config, or raise a `ModelFolderError` with the file and all its invalid values."""
    try:
        return cls.from_dict(values, where=str(path))
    except ConfigError as error:
        raise ModelFolderError(str(error)) from None
