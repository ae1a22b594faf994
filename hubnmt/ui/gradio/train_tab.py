"""The Train tab: data, start, progress and publication of training runs."""

import functools
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from hubnmt.checkpoint.card import fill_form, read_form
from hubnmt.errors import InputError
from hubnmt.hub.push import push
from hubnmt.hub.space import open_space
from hubnmt.text.languages import NAMES
from hubnmt.ui.gradio.events import QUIET, client_errors, draw_static, heading, line
from hubnmt.ui.html import training_run
from hubnmt.ui.services.registry import ModelRegistry, list_pairs
from hubnmt.ui.services.training_jobs import (
    ALIVE,
    SAMPLE,
    SAMPLE_NOTE,
    TrainingJobs,
    attention_maps,
    can_train,
    read_scores,
    run_command,
)
from hubnmt.ui.services.training_runs import read_run, samples_figure

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
ACTIONS = {
    "Pause": ALIVE,
    "Continue": ("paused", "failed"),
    "Stop and finish": ("training", "paused"),
    "Delete": ("paused", "failed", "finished"),
}
"""Buttons, and the states of a run in which they are shown."""
CHOICE: dict[str, Any] = {"interactive": True, "allow_custom_value": True}
"""Settings of dropdowns: a restarted page does not know the choices that a browser still shows."""
POLL_S = 2.0
MAX_FILE_MIB = 500
"""Limit of an upload where training is allowed."""
NOTHING, PARTS = "from nothing", {"all of": "model", "the source side of": "encoder"}


def tab_kind(registry: ModelRegistry) -> str:
    """Return whether the tab is there: `absent`, `explained`, or `working`."""
    wish = os.environ.get("HUBNMT_TRAIN") or ("1" if registry.allow_local else "")
    if wish == "0":
        return "absent"
    return "working" if wish == "1" and can_train() else "explained"


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
        self._place_start()
        self._place_watch()
        self._place_publish()

    def _place_data(self) -> None:
        heading("1. Data", "A .csv or .tsv table, two text files with a sentence a line, or a zip.")
        self._data = gr.State("")
        with gr.Row(elem_id="train-data"):
            self._files = gr.File(label="Files", file_count="multiple", height=150, min_width=280)
            with gr.Column(min_width=280):
                self._sample = gr.Button("Use the sample set", elem_id="train-sample")
                self._dataset = gr.Textbox(label="Or a Hub dataset", elem_id="train-dataset")
        languages = [(name, code) for code, name in NAMES.items()]
        options: dict[str, Any] = {"value": None, "min_width": 150, **CHOICE}
        with gr.Row():
            self._config = gr.Dropdown(
                [], label="Configuration", elem_id="train-config", visible=False, **options
            )
            self._columns = gr.Dropdown(
                [], label="Columns", multiselect=True, elem_id="train-columns", **options
            )
            self._languages = [
                gr.Dropdown(languages, label=label, **options)
                for label in ("Source language", "Target language")
            ]
            self._import = gr.Button("Read the data", elem_id="train-import", min_width=150)
        self._report = gr.Markdown(elem_id="train-report")
        self._examples = gr.Dataframe(
            visible=False, wrap=True, column_widths=["22%", "39%", "39%"], elem_id="train-examples"
        )

    def _place_start(self) -> None:
        heading("2. Start", "Size of model and vocabulary follow from data, time and machine.")
        with gr.Row():
            self._minutes = gr.Slider(3, 600, 10, step=1, label="Minutes", elem_id="train-minutes")
            self._origin = gr.Dropdown([NOTHING], value=NOTHING, label="Start", **CHOICE)
        with gr.Accordion("Recipe", open=False, elem_id="train-recipe-more"):
            self._recipe = gr.Code(
                label="Recipe (TOML)", interactive=True, wrap_lines=True, elem_id="train-recipe"
            )
        self._start = gr.Button(
            "Start training", variant="primary", elem_id="train-start", interactive=False
        )

    def _place_watch(self) -> None:
        heading("3. Watch", "One run trains at a time; the next waits.")
        self._job = gr.Dropdown([], label="Runs", elem_id="train-runs", **CHOICE)
        self._state = gr.Textbox(label="State", interactive=False, elem_id="train-state")
        with gr.Row(elem_id="train-actions"):
            self._actions = [
                gr.Button(name, visible=False, elem_id=f"train-{name.split()[-1].lower()}")
                for name in ACTIONS
            ]
        self._charts = line(elem_id="train-charts")
        self._samples = draw_static("history", "train-history")
        self._attention = draw_static("attention-history", "train-attention")
        self._seen = gr.State([])
        self._timer = gr.Timer(POLL_S, active=False)

    def _place_publish(self) -> None:
        heading("4. Try and publish", "The best validated model of a run, or any model folder.")
        self._scores = gr.Dataframe(
            headers=["On the validation set", "BLEU", "chrF"], elem_id="train-scores"
        )
        self._folder = gr.Textbox(label="Model folder", elem_id="train-folder")
        with gr.Row():
            self._open = {
                tab: gr.Button(f"Open in {tab.title()}", elem_id=f"train-open-{tab}")
                for tab in ("translate", "compare", "learn")
            }
        self._card = [
            gr.Textbox(label=f"Model card: {label}", info=info, elem_id=f"train-{label}")
            for label, info in (
                ("licence", "as the Hub names it, such as cc-by-4.0, or other"),
                ("data", "what the sentences are, where they come from, and their licence"),
                ("limits", "what the model should not be used for"),
            )
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
        # 1. Data.
        named = [self._dataset, self._config, self._columns]
        for event in (self._dataset.submit, self._dataset.blur, self._config.input):
            _on(event, self._describe, named, [*named[1:], *self._languages])
        read = [self._data, self._report, self._examples, *self._languages, self._columns]
        read.append(self._origin)
        sample = functools.partial(self._read, [str(SAMPLE)], note=SAMPLE_NOTE)
        _on(self._sample.click, sample, None, read)
        _on(self._files.upload, self._read, self._files, read)
        _on(self._import.click, self._read, [self._files, *named, *self._languages], read)
        # 2. Start.
        options = [self._data, self._minutes, self._origin]
        for event in (self._data.change, self._minutes.change, self._origin.input):
            # A click before the new recipe is there would start the old one.
            waits = _on(event, self._wait, None, self._start, trigger_mode="always_last")
            _on(waits.then, self._suggest, options, [self._recipe, self._start])
        started = _on(self._start.click, self._begin, self._recipe, self._job)
        # 3. Watch.
        poll = [self._job, self._seen]
        shown = [self._job, self._seen, self._state, *self._actions, self._charts, self._samples]
        shown += [self._attention, self._scores, self._folder, *self._card]
        tab.select(lambda: gr.Timer(active=True), None, self._timer, **QUIET)
        changed = [started.success, self._job.input, tab.select, self._timer.tick]
        acts: list[Any] = [self._jobs.pause, self._jobs.resume, self._jobs.finish, self._delete_run]
        for button, act in zip(self._actions, acts, strict=True):
            question = CONFIRM if act == self._delete_run else None
            changed.append(_on(button.click, act, self._job, None, js=question).then)
        for event in changed:
            event(self._tick, poll, shown, **QUIET)
        # 4. Try and publish.
        for name, button in self._open.items():
            field = compared if name == "compare" else model
            offer = functools.partial(self._offer, name)
            _on(button.click, offer, self._folder, [field, tabs])
        for event in (self._folder.blur, self._folder.submit):
            _on(event, self._read_card, self._folder, self._card)
        where = [self._folder, self._repo, self._is_private]
        publications: list[Any] = [
            (self._push.click, self._publish, self._pushed),
            (self._space.click, self._serve, self._pushed),
            (self._pack.click, self._zip_model, self._zip),
        ]
        for event, publish, target in publications:
            saved = _on(event, self._save_card, [self._folder, *self._card], None)
            _on(saved.success, publish, where, target, show_progress="full")

    # --- data ---

    def _describe(self, dataset: str, config: str | None, columns: list[str]) -> Any:
        if not dataset.strip():
            return gr.Dropdown(visible=False), *[gr.skip()] * 3
        said = run_command("import_pairs", "--describe", dataset=dataset.strip(), config=config)
        configs, names = json.loads(said).values()
        shown = config if config in configs else configs[0]
        kept = [name for name in columns or [] if name in names]
        chosen = gr.Dropdown(configs, value=shown, visible=True), gr.Dropdown(names, value=kept)
        return *chosen, None, None

    def _read(
        self,
        files: list[str] | None,
        dataset: str = "",
        config: str | None = None,
        columns: Any = (),
        *languages: str | None,
        note: str = "",
    ) -> Any:
        if not files and not dataset.strip():
            raise InputError("upload a file, or name a dataset")
        source = {"note": note} if files else {"dataset": dataset.strip(), "config": config}
        pair = languages if all(languages) else ()
        folder, report = self._jobs.import_pairs(
            *(files or ()), **source, columns=columns, languages=pair
        )
        src, tgt = report["languages"]
        origins = [NOTHING]
        for name, pair in list_pairs(self._registry).items():
            fits = [list(pair) == [src, tgt], pair[0] == src]
            origins += [f"{kind} {name}" for kind in itertools.compress(PARTS, fits)]
        return (
            str(folder),
            report["summary"],
            gr.Dataframe(report["examples"], headers=["pairs", src, tgt], visible=True),
            *report["languages"],
            gr.Dropdown(report["columns"], value=list(columns or ())),
            gr.Dropdown(origins, value=NOTHING),
        )

    # --- start ---

    def _wait(self) -> Any:
        return gr.Button(interactive=False)

    def _suggest(self, data: str, minutes: float, origin: str) -> Any:
        if not data:
            return gr.skip(), gr.skip()
        kind, _, name = origin.rpartition(" ")
        options = {"start": name, "part": PARTS[kind]} if kind in PARTS else {}
        recipe = self._jobs.suggest(Path(data), minutes=minutes, **options)
        return recipe, gr.Button(interactive=True)

    def _begin(self, recipe: str) -> Any:
        name = self._jobs.start(recipe)
        return gr.Dropdown([name], value=name)

    # --- watch ---

    def _tick(self, name: str | None, seen: Any) -> dict[Any, Any]:
        """Show the selected run, the newest by default; visitors see none."""
        jobs = self._jobs.list() if may_train() else []
        job = next((job for job in jobs if job.name == name), jobs[0] if jobs else None)
        state, folder = (job.state, job.folder) if job else ("", Path(os.devnull))
        metrics, best = folder / "metrics.jsonl", folder / "best"
        choices = [(f"{job.name} ({job.state})", job.name) for job in jobs]
        phase = [str(folder), state, best.is_dir()]
        now = [phase, choices, metrics.stat().st_mtime if metrics.is_file() else 0]
        left = job.seconds_left if job and state == "training" else None
        about = "" if left is None else f", about {left / 60:.1f} minutes left"
        message = job.message if job and state in (*ALIVE, "failed") else ""
        shown: dict[Any, Any] = {self._state: f"{state}{about}\n{message}"}
        if now == seen:
            return shown
        run = read_run(folder) if metrics.is_file() else None
        if phase not in seen:  # not while somebody names a folder or fills in the card
            shown[self._folder] = path = str(best) if best.is_dir() else ""
            shown |= dict(zip(self._card, self._read_card(path), strict=True))
        shown |= {each: gr.Button(visible=state in ACTIONS[each.value]) for each in self._actions}
        return shown | {
            self._seen: now,
            self._job: gr.Dropdown(choices, value=job.name if job else None),
            self._charts: f'<div class="charts">{training_run.progress(run)}</div>' if run else "",
            self._samples: samples_figure(run) if run else None,
            self._attention: attention_maps(folder),
            self._scores: read_scores(folder),
        }

    def _delete_run(self, name: str | None) -> None:
        if name is not None:  # confirmed
            self._jobs.delete(name)

    # --- try and publish ---

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
        return read_form(self._model_folder(folder)) if folder else [""] * len(self._card)

    def _save_card(self, folder: str, *texts: str) -> None:
        fill_form(self._model_folder(folder), *texts)

    def _zip_model(self, folder: str, *_: Any) -> Any:
        path = self._model_folder(folder)
        name = path.parent.name if path.name in ("best", "last") else path.name
        packed = shutil.make_archive(str(self._downloads / name), "zip", path)
        return gr.File(packed, visible=True)

    def _publish(
        self,
        folder: str,
        repo: str,
        is_private: bool,
        progress: gr.Progress = gr.Progress(track_tqdm=True),  # noqa: B008  # required by Gradio
    ) -> str:
        path, name = self._model_folder(folder), repo.strip()
        pushed = push(path, name, private=is_private, token=_sign_in().get("access_token"))
        return f"[{name} is on the Hub]({pushed.url})"

    def _serve(self, _: str, repo: str, is_private: bool) -> str:
        name, token = repo.strip(), _sign_in().get("access_token")
        keeps_token = is_private and token is None  # that of a sign-in expires
        opened = open_space(name, name, private=is_private, with_token=keeps_token, token=token)
        return f"[The Space {name} is being built]({opened.url})"
