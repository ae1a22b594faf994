"""The Train tab: data, start, progress and publication of training runs."""

import contextlib
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from hubnmt.checkpoint.card import fill_form, read_form
from hubnmt.checkpoint.files import METRICS
from hubnmt.errors import InputError
from hubnmt.hub.push import push
from hubnmt.hub.space import open_space
from hubnmt.text.languages import NAMES
from hubnmt.ui.gradio.events import QUIET, client_errors, heading
from hubnmt.ui.gradio.run_record import RunRecord
from hubnmt.ui.services.registry import ModelRegistry, list_pairs
from hubnmt.ui.services.training_jobs import ALIVE, HAS_TRAINING, NO_JOB, SAMPLE, TrainingJobs
from hubnmt.ui.services.training_runs import read_run

LEAD = (
    "Make a translation model from a table of sentences: it learns on this machine, in a process "
    "of its own, which goes on when this page is closed."
)
ELSEWHERE = (
    "On a page of your own, this tab makes a translation model from a table of sentences, shows "
    "how it learns, and publishes it. Start the page on your machine from a checkout "
    "(<code>python app.py</code>), or duplicate this Space and set the variable "
    "<code>HUBNMT_TRAIN</code> to 1; there only you, signed in, can train."
)
CONFIRM = "(name) => confirm(`Delete the run ${name} and its model?`) ? name : null"
ACTIONS: dict[str, tuple[Callable[..., None], tuple[str, ...], str | None]] = {
    "Pause": (TrainingJobs.pause, ALIVE, None),
    "Continue": (TrainingJobs.resume, ("paused", "failed"), None),
    "Stop and finish": (TrainingJobs.finish, ("training", "paused"), None),
    "Delete": (TrainingJobs.delete, ("paused", "failed", "finished"), CONFIRM),
}
"""Buttons: what they do, the states of a run in which they are shown, and a question."""
CHOICE: dict[str, Any] = {"interactive": True, "allow_custom_value": True, "min_width": 150}
"""Settings of dropdowns: a restarted page does not know the choices that a browser still shows."""
CARD_FORM = {
    "licence": "as the Hub names it, such as cc-by-4.0, or other",
    "data": "what the sentences are, where they come from, and their licence",
    "limits": "what the model should not be used for",
}
MAX_FILE_MIB = 500
"""Limit of an upload where training is allowed."""
NOTHING = ("from nothing", "")
PROGRESS = gr.Progress(track_tqdm=True)


def tab_kind(registry: ModelRegistry) -> str:
    """Return whether the tab is there: `absent`, `explained`, or `working`."""
    wish = os.environ.get("HUBNMT_TRAIN") or ("1" if registry.allow_local else "")
    if wish == "0":
        return "absent"
    return "working" if wish == "1" and HAS_TRAINING else "explained"


def _sign_in() -> dict[str, Any]:
    """Return what Gradio keeps of a sign-in with Hugging Face: `userinfo` and `access_token`."""
    request = getattr(LocalContext.request.get(None), "request", None)
    found: dict[str, Any] = getattr(request, "scope", {}).get("session", {}).get("oauth_info", {})
    return found


def may_train() -> bool:
    """Return whether the visitor may train: on a Space its owner or a member, signed in."""
    user = _sign_in().get("userinfo", {})
    names = {each.get("preferred_username") for each in (user, *user.get("orgs", []))}
    owner = os.environ.get("SPACE_AUTHOR_NAME")
    return owner is None or owner in names


def _on(event: Any, listener: Callable[..., Any], inputs: Any, outputs: Any, **more: Any) -> Any:
    """Connect a listener that refuses visitors, and reports errors as `gr.Error`."""

    @functools.wraps(listener)
    def run(*values: Any) -> Any:
        if not may_train():
            raise InputError("sign in as the owner of this Space to train")
        return listener(*values)

    return event(client_errors()(run), inputs, outputs, **QUIET | more)


class TrainTab:
    """Components and events of the tab."""

    def __init__(self, registry: ModelRegistry) -> None:
        """Create the components."""
        self._registry = registry
        folder = Path(os.environ.get("HUBNMT_RUNS") or "runs")
        self._jobs = TrainingJobs(folder.expanduser().resolve())
        self._downloads = Path(tempfile.mkdtemp(prefix="hubnmt-"))
        heading("Train a model", LEAD)
        if "OAUTH_CLIENT_ID" in os.environ:  # a Space with `hf_oauth: true`
            gr.LoginButton()
        self._place_data()
        self._place_run()
        self._place_model()

    def _place_data(self) -> None:
        heading("1. Data", "A .csv or .tsv table, two text files with a sentence a line, or a zip.")
        with gr.Row(elem_id="train-data"):
            self._files = gr.File(label="Files", file_count="multiple", height=150, min_width=280)
            with gr.Column(min_width=280):
                self._sample = gr.Button("Use the sample set", elem_id="train-sample")
                self._dataset = gr.Dropdown(
                    [], value="", label="Or a Hub dataset", elem_id="train-dataset", **CHOICE
                )
        languages = [(name, code) for code, name in NAMES.items()]
        with gr.Row():
            self._columns = gr.Dropdown(
                [], label="Columns", multiselect=True, elem_id="train-columns", **CHOICE
            )
            self._languages = [
                gr.Dropdown(languages, value=None, label=f"{side} language", **CHOICE)
                for side in ("Source", "Target")
            ]
            self._import = gr.Button("Read the data", elem_id="train-import", min_width=150)
        self._report = gr.Markdown(elem_id="train-report")
        self._pairs = gr.State("")  # the folder of what was read

    def _place_run(self) -> None:
        heading("2. Start", "Size of model and vocabulary follow from data, time and machine.")
        with gr.Row():
            self._minutes = gr.Slider(3, 600, 10, step=1, label="Minutes", elem_id="train-minutes")
            self._origin = gr.Dropdown([NOTHING], value="", label="Start", **CHOICE)
        with gr.Accordion("Recipe", open=False, elem_id="train-recipe-more"):
            self._recipe = gr.Code(
                label="Recipe (TOML)", interactive=True, wrap_lines=True, elem_id="train-recipe"
            )
        self._start = gr.Button(
            "Start training", variant="primary", elem_id="train-start", interactive=False
        )
        heading("3. Watch", "One run trains at a time; the next waits.")
        self._job = gr.Dropdown([], label="Runs", elem_id="train-runs", **CHOICE)
        self._state = gr.Textbox(label="State", interactive=False, elem_id="train-state")
        with gr.Row(elem_id="train-actions"):
            self._actions = [
                gr.Button(name, visible=False, elem_id=f"train-{name.split()[-1].lower()}")
                for name in ACTIONS
            ]
        self._record = RunRecord("train-record")
        self._seen = gr.State([])
        self._timer = gr.Timer(2, active=False)

    def _place_model(self) -> None:
        heading("4. Try and publish", "The best validated model of a run, or any model folder.")
        measured = ["On the validation set", "BLEU", "chrF"]
        self._scores = gr.Dataframe(headers=measured, elem_id="train-scores")
        self._folder = gr.Textbox(label="Model folder", elem_id="train-folder")
        with gr.Row():
            self._open = {
                tab: gr.Button(f"Open in {tab.title()}", elem_id=f"train-open-{tab}")
                for tab in ("translate", "compare", "learn")
            }
        self._card = [
            gr.Textbox(label=f"Model card: {name}", info=info, elem_id=f"train-{name}")
            for name, info in CARD_FORM.items()
        ]
        with gr.Row():
            self._repo = gr.Textbox(label="Hub repository", placeholder="user/name")
            self._is_private = gr.Checkbox(
                True, label="Private", info="A private Space stores your token."
            )
        with gr.Row():
            self._push = gr.Button("Push to the Hub", variant="primary", elem_id="train-push")
            self._space = gr.Button("Make a Space of it", elem_id="train-space")
            self._pack = gr.Button("Download as zip", elem_id="train-pack")
        self._pushed = gr.Markdown(elem_id="train-pushed")
        self._zip = gr.File(label="Model", visible=False, elem_id="train-zip")

    def wire(self, tab: gr.Tab, tabs: gr.Tabs, model: gr.Dropdown, compared: gr.Dropdown) -> None:
        """Connect the events; `compared` is the second model of the Compare tab."""
        # 1. Data and recipe.
        described = [self._dataset, self._columns, *self._languages]
        _on(self._dataset.input, self._describe, self._dataset, described)
        recipe = [self._recipe, self._start]
        read = [self._pairs, self._report, self._columns, *self._languages, self._origin, *recipe]
        copied = [shutil.copy(SAMPLE, self._downloads)]
        sample = _on(self._sample.click, lambda: (copied, ""), None, [self._files, self._dataset])
        files, planned = [self._minutes, self._files], [self._minutes, self._origin, self._pairs]
        for event, listener, inputs, outputs in (
            (sample.then, self._read, files, read),
            (self._files.upload, self._read, files, read),
            (self._import.click, self._read, [*files, *described], read),
            (self._minutes.change, self._suggest, planned, recipe),
            (self._origin.input, self._suggest, planned, recipe),
        ):
            # A click before the new recipe is there would start the old one.
            waits = _on(event, lambda: gr.Button(interactive=False), None, self._start)
            _on(waits.then, listener, inputs, outputs, show_progress="minimal")
        started = _on(self._start.click, self._jobs.start, self._recipe, self._job)
        # 2. Run.
        watched = [self._job, self._seen, self._state, *self._actions, self._scores]
        watched += [self._folder, *self._record.components]
        tab.select(lambda: gr.Timer(active=True), None, self._timer, **QUIET)
        changed = [started.success, self._job.input, tab.select, self._timer.tick]
        for button in self._actions:
            act, _, question = ACTIONS[button.value]
            act = functools.partial(self._act, act)
            changed.append(_on(button.click, act, self._job, None, js=question).then)
        for event in changed:
            event(self._watch, [self._job, self._seen], watched, **QUIET)
        # 3. Model.
        for name, button in self._open.items():
            field = compared if name == "compare" else model
            _on(button.click, functools.partial(self._offer, name), self._folder, [field, tabs])
        _on(self._folder.change, self._read_card, self._folder, self._card)
        card, names = [self._folder, *self._card], [self._folder, self._repo, self._is_private]
        pushed = _on(self._push.click, self._fill_card, card, None).success
        packed = _on(self._pack.click, self._fill_card, card, None).success
        for event, publish, target in (
            (pushed, self._publish, self._pushed),
            (packed, self._zip_model, self._zip),
            (self._space.click, self._serve, self._pushed),
        ):
            _on(event, publish, names, target, show_progress="full")

    # --- data and recipe ---

    def _describe(self, dataset: str | None) -> Any:
        if not dataset:
            return [gr.skip()] * 4
        found = self._jobs.describe(dataset)
        names = gr.Dropdown(found["names"], value=found["names"][0])
        return names, gr.Dropdown(found["columns"], value=[]), None, None

    def _read(
        self, minutes: float, files: Any, dataset: str = "", columns: Any = (), *pair: Any
    ) -> Any:
        if not files and not dataset:
            raise InputError("upload a file, or name a dataset")
        options = {"columns": columns, "languages": pair if all(pair) else (), "minutes": minutes}
        options |= {} if files else {"dataset": dataset}
        folder, report, recipe = self._jobs.prepare(*(files or ()), **options)
        src, tgt = report["languages"]
        origins = [NOTHING]
        for name, (its_src, its_tgt) in list_pairs(self._registry).items():
            origins += [(f"all of {name}", f"model {name}")] * ((its_src, its_tgt) == (src, tgt))
            origins += [(f"the source side of {name}", f"encoder {name}")] * (its_src == src)
        found = gr.Dropdown(report["columns"], value=[*columns])
        start = gr.Dropdown(origins, value=""), recipe, gr.Button(interactive=True)
        return folder, report["summary"], found, src, tgt, *start

    def _suggest(self, minutes: float, origin: str, pairs: str) -> Any:
        if not pairs:
            return gr.skip(), gr.skip()
        part, _, start = origin.partition(" ")
        *_, recipe = self._jobs.prepare(data=pairs, minutes=minutes, part=part, start=start)
        return recipe, gr.Button(interactive=True)

    # --- run ---

    def _watch(self, name: str | None, seen: Any) -> dict[Any, Any]:
        """Show the selected run, the newest by default; visitors see none."""
        jobs = self._jobs.list() if may_train() else []
        job = next((job for job in jobs if job.name == name), jobs[0] if jobs else NO_JOB)
        shown: dict[Any, Any] = {self._state: f"{job.state}\n{job.message}"}
        choices = [(f"{job.name} ({job.state})", job.name) for job in jobs]
        model = str(job.folder / "best") if (job.folder / "best").is_dir() else ""
        now = [model, choices, name, [*map(os.path.getsize, job.folder.glob(METRICS))]]
        if now == seen:
            return shown
        if [model] != seen[:1]:  # not while somebody names another folder
            shown[self._folder] = model
        for button in self._actions:
            shown[button] = gr.Button(visible=job.state in ACTIONS[button.value][1])
        shown |= self._record.show(read_run(job.folder))
        return shown | {
            self._seen: now,
            self._job: gr.Dropdown(choices, value=job.name or None),
            self._scores: job.scores(),
        }

    def _act(self, act: Callable[..., None], name: str | None) -> None:
        if name is not None:  # answered with yes
            act(self._jobs, name)

    # --- model ---

    def _model_folder(self, folder: str) -> Path:
        path = Path(folder.strip() or os.devnull).expanduser().resolve()
        is_run = path.is_relative_to(self._jobs.folder)
        if not (path / "config.json").is_file() or not (is_run or self._registry.allow_local):
            raise InputError("no model there yet: wait for the first validation, or name a folder")
        return path

    def _offer(self, tab: str, folder: str) -> Any:
        path = str(self._model_folder(folder))
        self._registry.offer(path)
        return path, gr.Tabs(selected=tab)

    def _read_card(self, folder: str) -> Any:
        with contextlib.suppress(InputError):  # a name that is being typed
            return read_form(self._model_folder(folder))
        return [""] * len(self._card)

    def _fill_card(self, folder: str, *card: str) -> None:
        fill_form(self._model_folder(folder), *card)

    def _zip_model(self, folder: str, _repo: str, _is_private: bool) -> Any:
        path = self._model_folder(folder)
        name = path.parent.name if path.name in ("best", "last") else path.name
        target = str(self._downloads / name)
        return gr.File(shutil.make_archive(target, "zip", path), visible=True)

    def _publish(self, folder: str, repo: str, is_private: bool, bar: Any = PROGRESS) -> str:
        path, name = self._model_folder(folder), repo.strip()
        pushed = push(path, name, private=is_private, token=_sign_in().get("access_token"))
        return f"[{name} is on the Hub]({pushed.url})"

    def _serve(self, _folder: str, repo: str, is_private: bool) -> str:
        name, token = repo.strip(), _sign_in().get("access_token")
        keeps_token = is_private and token is None  # that of a sign-in expires
        opened = open_space(name, name, private=is_private, with_token=keeps_token, token=token)
        return f"[The Space {name} is being built]({opened.url})"
