"""What the small Hub says about repositories and files, in the Hub's JSON.

Takes values of `store`, gives dictionaries.
"""

import json
from typing import Any

import safetensors.numpy
import yaml

from tests.hub_server.store import Blob, Repo

WHEN = "2026-01-02T03:04:05.000Z"


def describe_repo(repo: Repo, revision: str, *, blobs: bool = False) -> dict[str, Any]:
    commit = repo.resolve(revision)
    card = read_card(commit.files.get("README.md"))
    config = read_json(commit.files.get("config.json"))
    library = card.get("library_name") or ("transformers" if "model_type" in config else None)
    tags = [*as_list(card.get("tags")), *as_list(card.get("language"))]
    if library:
        tags.append(library)
    answer: dict[str, Any] = {
        "id": repo.id,
        "modelId": repo.id,
        "author": repo.owner,
        "sha": commit.oid,
        "private": repo.private,
        "gated": "auto" if repo.gated else False,
        "tags": list(dict.fromkeys(tag for tag in tags if isinstance(tag, str))),
        "lastModified": WHEN,
        "cardData": card,
        "siblings": [
            describe_file(name, blob) if blobs else {"rfilename": name}
            for name, blob in sorted(commit.files.items())
        ],
    }
    if isinstance(library, str):
        answer["library_name"] = library
    if "model-index" in card:
        answer["model-index"] = card["model-index"]
    if numbers := count_numbers(commit.files.get("model.safetensors")):
        answer["safetensors"] = {"parameters": numbers, "total": sum(numbers.values())}
    return answer


def describe_file(name: str, blob: Blob) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "file", "path": name, "rfilename": name}
    answer |= {"size": len(blob.data), "oid": blob.oid, "blobId": blob.oid}
    if blob.is_lfs:
        answer["lfs"] = {
            "oid": blob.sha256,
            "sha256": blob.sha256,
            "size": len(blob.data),
            "pointerSize": len(blob.pointer),
        }
    return answer


def read_card(blob: Blob | None) -> dict[str, Any]:
    text = blob.data.decode("utf-8", "replace") if blob else ""
    if not text.startswith("---\n") or "\n---" not in text[4:]:
        return {}
    try:
        head = yaml.safe_load(text[4:].split("\n---")[0])
    except Exception:  # as for others who read cards: the parser raises what it meets
        return {}
    return json.loads(json.dumps(head, default=str)) if isinstance(head, dict) else {}


def read_json(blob: Blob | None) -> dict[str, Any]:
    try:
        values = json.loads(blob.data) if blob else {}
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def count_numbers(blob: Blob | None) -> dict[str, int]:
    try:
        tensors = safetensors.numpy.load(blob.data) if blob else {}
    except safetensors.SafetensorError:
        return {}
    return {"F32": sum(tensor.size for tensor in tensors.values())} if tensors else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []
