"""The Hub: a model folder goes out, a repository comes in, a Space serves it.

The doors: `pull` and `pull_to`, `push`, `open_space`, and the lists. The rooms, in the order in
which they may import each other:

- `reference`: `user/name@revision`
- `trouble`: what went wrong, in one sentence
- `client`: the line to the Hub; the token, patience
- `digest`: whether content is what the Hub states
- `contents`: which files make a model, and how large they may be
- `pull`: Hub to cache
- `commit`: what differs, in one commit
- `push`: folder to Hub
- `listing`: which models there are
- `bounds`: how much the cache may hold
- `space`: the page, as a Space

A folder is all that passes through here; what is in it is `hubnmt.checkpoint`'s business.
"""

from hubnmt.hub.bounds import forget_oldest, note_use
from hubnmt.hub.listing import Catalogue, ListedModel, list_bundled, list_cached, list_hub
from hubnmt.hub.pull import Pulled, find_cached, pull, pull_to
from hubnmt.hub.push import Pushed, push
from hubnmt.hub.reference import HubReference, parse_reference
from hubnmt.hub.space import Opened, open_space

__all__ = [
    "Catalogue",
    "HubReference",
    "ListedModel",
    "Opened",
    "Pulled",
    "Pushed",
    "find_cached",
    "forget_oldest",
    "list_bundled",
    "list_cached",
    "list_hub",
    "note_use",
    "open_space",
    "parse_reference",
    "pull",
    "pull_to",
    "push",
]
