"""A small Hugging Face Hub on this machine, for tests with the genuine client.

Speaks the part of the Hub's HTTP that `huggingface_hub` uses for models and Spaces: repositories,
branches, pull requests, downloads with ETag, commits, large files by LFS, lists, private and gated
repositories. `HubServer.faults` makes it misbehave.
"""

from tests.hub_server.server import Fault, HubServer
from tests.hub_server.store import Repo, User

__all__ = ["Fault", "HubServer", "Repo", "User"]
