"""A small Hugging Face Hub on this machine, for tests with the genuine client.

Speaks the part of the Hub's HTTP that `huggingface_hub` uses for models and Spaces: repositories,
branches, pull requests, downloads with ETag, commits, large files by
LFS, listings in pages, private and gated repositories. `HubServer.faults` makes it misbehave.
"""

from tests.hub_server.faults import Fault
from tests.hub_server.server import HubServer
from tests.hub_server.store import Blob, Repo, Store, User

__all__ = ["Blob", "Fault", "HubServer", "Repo", "Store", "User"]
