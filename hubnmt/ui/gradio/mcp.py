"""Structured answers of the MCP tools.

Gradio 6.31 answers with the `repr` of each output as text. Here the text is JSON, and the same
value is `structuredContent`. Source: https://modelcontextprotocol.io/specification/2025-06-18/server/tools
"""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradio.mcp import GradioMCPServer


@contextlib.asynccontextmanager
async def structured_tools(app: Any) -> AsyncIterator[None]:
    """Lifespan of the app: let the tools of its MCP server, if any, answer with structures."""
    server = app.get_blocks().mcp_server_obj
    if server is not None:
        _structure_answers(server)
    yield


def _structure_answers(server: "GradioMCPServer") -> None:
    types: Any = server.types
    to_content = server.postprocess_output_data
    handlers = server.mcp_server.request_handlers
    call = handlers[types.CallToolRequest]

    def to_json(data: Any, root_url: str) -> Any:
        # A queued tool's outputs arrive as one tuple.
        outputs = data[0] if data and isinstance(data[0], tuple) else data
        return to_content([_dump(each) for each in outputs], root_url)

    async def call_structured(request: Any) -> Any:
        answer = await call(request)
        result = answer.root
        if isinstance(result, types.CallToolResult) and not result.isError and result.content:
            last = result.content[-1]  # the details; before them the text or file alone
            value = json.loads(last.text) if isinstance(last, types.TextContent) else None
            result.structuredContent = value if isinstance(value, dict) else {"result": value}
        return answer

    server.postprocess_output_data = to_json  # type: ignore[method-assign]  # no other hook
    handlers[types.CallToolRequest] = call_structured


def _dump(output: Any) -> Any:
    """Return details as JSON; texts and files as they are."""
    is_file = isinstance(output, dict) and "meta" in output
    is_value = isinstance(output, (dict, list)) and not is_file
    return json.dumps(output, ensure_ascii=False) if is_value else output
