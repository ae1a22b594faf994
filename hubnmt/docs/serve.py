"""Ray Serve: two processes translate, and a request goes to the other when one of them dies.

pip install "ray[serve]"; serve run hubnmt.docs.serve:app
curl 127.0.0.1:8000 -d '{"text": "Ein Hund rennt im Schnee."}'
"""

import asyncio
import os

from ray import serve
from ray.exceptions import RayActorError
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request

from hubnmt import Translator


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})
class Model:
    """One copy of the model; `num_gpus` in place of `num_cpus` for a GPU each."""

    def __init__(self, name: str) -> None:
        """Load it."""
        self.translator = Translator.from_pretrained(name)

    def translate(self, text: str) -> str:
        """Return the translation of one text."""
        return self.translator.translate(text).text


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Ingress:
    """Receives the requests."""

    def __init__(self, model: DeploymentHandle) -> None:
        """Keep the handle, which distributes calls over the replicas."""
        self.model = model

    async def __call__(self, request: Request) -> str:
        """Translate, again if a replica dies meanwhile; Ray starts another in its place."""
        text = (await request.json())["text"]
        for _ in range(5):
            try:
                return await self.model.translate.remote(text)
            except RayActorError:
                await asyncio.sleep(0.2)
        return await self.model.translate.remote(text)


app = Ingress.bind(Model.bind(os.environ.get("HUBNMT_MODEL", "de-en")))
