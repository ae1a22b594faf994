"""Title, description and picture of a link to the page: the Open Graph protocol.

Gradio (6.31) writes its own into the template of the page. Source: https://ogp.me
"""

import html
import re

from gradio.route_utils import get_root_url
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hubnmt.hub.space import DESCRIPTION
from hubnmt.ui.gradio.events import ASSETS

TITLE = "hubnmt: translation and attention"

PICTURE = "share.png"
"""In the assets, 1200 x 630 pixels; also its path on the page."""

TAGS = re.compile(rb'\s*<meta\s+(?:property="og:|name="twitter:)[^>]*>')


class LinkPreview:
    """ASGI middleware that replaces the tags of the page and serves the picture."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if is_read and scope["path"].endswith(f"/{PICTURE}"):
            await FileResponse(ASSETS / PICTURE)(scope, receive, send)
        elif is_read and scope["path"].endswith("/"):
            await self._app(scope, receive, _replacing_tags(scope, send))
        else:
            await self._app(scope, receive, send)


def _replacing_tags(scope: Scope, send: Send) -> Send:
    """Replace the tags in a response that is a page."""
    begun: Message = {}

    async def replace(message: Message) -> None:
        if message["type"] == "http.response.start":
            begun.update(message)
            return
        headers = MutableHeaders(scope=begun)
        is_page = headers.get("content-type", "").startswith("text/html")
        if is_page and b"<head>" in message.get("body", b""):  # Gradio sends it in one piece
            head = b"<head>" + _tags(scope).encode()
            message["body"] = TAGS.sub(b"", message["body"]).replace(b"<head>", head, 1)
            headers["content-length"] = str(len(message["body"]))
        if begun:
            await send({**begun})
            begun.clear()
        await send(message)

    return replace


def _tags(scope: Scope) -> str:
    root = get_root_url(Request(scope), scope["path"], scope.get("root_path"))
    properties = {
        "og:type": "website",
        "og:site_name": "hubnmt",
        "og:title": TITLE,
        "og:description": f"{DESCRIPTION}.",
        "og:url": f"{root}/",
        "og:image": f"{root}/{PICTURE}",
        "og:image:width": "1200",
        "og:image:height": "630",
        "og:image:alt": "A German sentence, its translation, and the attention between them",
    }
    tags = [
        f'<meta property="{name}" content="{html.escape(value)}" />'
        for name, value in properties.items()
    ]
    tags.append('<meta name="twitter:card" content="summary_large_image" />')
    tags.append(f'<meta name="description" content="{html.escape(DESCRIPTION)}." />')
    return "".join(tags)
