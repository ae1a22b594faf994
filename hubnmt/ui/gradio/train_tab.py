"""The Train tab: data, start, progress and publication of training runs."""

import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from hubnmt.errors import InputError
from hubnmt.hub.push import push
from hubnmt.hub.space import open_space
from hubnmt.text.languages import NAMES
from hubnmt.ui.gradio.events import QUIET, client_errors, draw_static, heading, line
from hubnmt.ui.html import training_job, training_run
from hubnmt.ui.services import training_jobs
from hubnmt.ui.services.registry import list_pairs
from hubnmt.ui.services.training_jobs import ALIVE, Job, TrainingJobs
from hubnmt.ui.services.training_runs import read_run, samples_figure
from hubnmt.ui.services.translate import Handlers

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
SAMPLE_NOTE = "2,000 short sentences of Tatoeba (tatoeba.org), by its contributors"
SAMPLE_LICENSE = "CC BY 2.0 FR, with attribution to Tatoeba"
CONFIRM = "(name) => confirm(`Delete the run ${name} and its model?`) ? name : null"
POLL_S = 2.0
MAX_FILE_MIB = 500
"""Limit of an upload where training is allowed."""
NOTHING, WHOLE, ENCODER = "from nothing", "all of", "the source side of"


def tab_kind(handlers: Handlers) -> str:
    """Return whether the tab is there: `absent`, `explained`, or `working`."""
    wish = os.environ.get("HUBNMT_TRAIN") or ("1" if handlers.registry.allow_local else "")
    if wish == "0":
        return "absent"
    return "working" if wish == "1" and training_jobs.can_train() else "explained"


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


def _owned(listener: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a listener to refuse visitors, and to report errors as `gr.Error`."""

    @functools.wraps(listener)
    def run(*values: Any) -> Any:
        if not may_train():
            raise InputError("sign in as the owner of this Space to train")
        return listener(*values)

    return client_errors()(run)


class TrainTab:
    """Components and events of the tab."""

    def __init__(self, handlers: Handlers) -> None:
        """Create the components."""
        self._registry = handlers.registry
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
                self._dataset = gr.Textbox(
                    label="Or a Hub dataset, and its configuration",
                    placeholder="Helsinki-NLP/opus-100 de-en",
                    elem_id="train-dataset",
                )
        languages = [(name, code) for code, name in NAMES.items()]
        with gr.Row():
            self._languages = [
                gr.Dropdown(
                    languages, value=None, label=label, allow_custom_value=True, interactive=True
                )
                for label in ("Source language", "Target language")
            ]
            self._columns = gr.Dropdown(
                [], value=[], label="Columns", multiselect=True, max_choices=2, interactive=True
            )
            self._import = gr.Button("Read the data", elem_id="train-import")
        self._report = line(elem_id="train-report")

    def _place_start(self) -> None:
        heading("2. Start", "Size of model and vocabulary follow from data, time and machine.")
        with gr.Row():
            self._minutes = gr.Slider(1, 600, 10, step=1, label="Minutes", elem_id="train-minutes")
            self._start_from = gr.Dropdown(
                [NOTHING], value=NOTHING, label="Start", interactive=True, elem_id="train-from"
            )
            self._threads = gr.Number(
                0, precision=0, minimum=0, label="CPU threads", info="0 measures which is fastest"
            )
        with gr.Accordion("Recipe", open=False, elem_id="train-recipe-more"):
            self._recipe = gr.Textbox(
                lines=12, max_lines=30, label="Recipe (TOML)", elem_id="train-recipe"
            )
            self._download_recipe = gr.DownloadButton("Download recipe", size="sm")
        with gr.Accordion("Model card", open=False):
            self._card = {
                "title": gr.Textbox(label="Title"),
                "data": gr.Textbox(label="What the sentences are, and where they come from"),
                "data_license": gr.Textbox(label="Licence of the sentences"),
                "license": gr.Textbox("other", label="Licence of the model, as the Hub names it"),
                "limits": gr.Textbox(label="What the model should not be used for"),
            }
        self._start = gr.Button(
            "Start training", variant="primary", elem_id="train-start", interactive=False
        )

    def _place_watch(self) -> None:
        heading("3. Watch", "One run trains at a time; the next waits.")
        self._job = gr.Dropdown(
            [], label="Runs", elem_id="train-runs", interactive=True, allow_custom_value=True
        )
        self._state = line(elem_id="train-state")
        with gr.Row(elem_id="train-actions"):
            self._pause = gr.Button("Pause", elem_id="train-pause")
            self._resume = gr.Button("Continue", elem_id="train-continue")
            self._finish = gr.Button("Stop and finish", elem_id="train-finish")
            self._delete = gr.Button("Delete", variant="stop", elem_id="train-delete")
        self._charts = line(elem_id="train-charts")
        self._samples = draw_static("history", "train-history")
        self._attention = draw_static("attention-history", "train-attention")
        self._seen = gr.State(None)
        self._timer = gr.Timer(POLL_S, active=False)

    def _place_publish(self) -> None:
        heading("4. Try and publish", "The best validated model of a run, or any model folder.")
        self._scores = line(elem_id="train-scores")
        self._folder = gr.Textbox(label="Model folder", elem_id="train-folder")
        with gr.Row():
            self._open = {
                tab: gr.Button(f"Open in {tab.title()}", elem_id=f"train-open-{tab}")
                for tab in ("translate", "compare", "learn")
            }
            self._pack_button = gr.Button("Download as zip", elem_id="train-pack")
            self._zip = gr.DownloadButton("Save the zip", visible=False, elem_id="train-zip")
        with gr.Row():
            self._repo = gr.Textbox(label="Hub repository", placeholder="user/name")
            self._is_private = gr.Checkbox(True, label="Private")
            self._push = gr.Button("Push to the Hub", elem_id="train-push")
            self._space = gr.Button("Make a Space of it", elem_id="train-space")
        self._pushed = line(elem_id="train-pushed")

    def wire(self, tab: gr.Tab, tabs: gr.Tabs, model: gr.Dropdown, compared: gr.Dropdown) -> None:
        """Connect the events; `compared` is the second model of the Compare tab."""
        # 1. Data.
        read = [self._data, self._report, *self._languages, self._columns, self._start_from]
        described = [self._card["data"], self._card["data_license"]]
        sources = [self._files, self._dataset, *self._languages, self._columns]
        imported = [
            self._files.upload(_owned(self._import_pairs), self._files, read, **QUIET),
            self._import.click(_owned(self._import_chosen), sources, read, **QUIET),
            self._sample.click(_owned(self._import_sample), None, [*read, *described], **QUIET),
        ]
        # 2. Start.
        options = [self._data, self._minutes, self._start_from, self._threads]
        changed: list[Any] = [each.success for each in imported]
        changed += [self._minutes.change, self._start_from.input, self._threads.change]
        for event in changed:  # a click before the recipe is there would start another one
            waiting = event(
                lambda: gr.Button(interactive=False),
                *(None, self._start),
                **QUIET | {"trigger_mode": "always_last"},
            )
            suggested = waiting.then(_owned(self._suggest), options, self._recipe, **QUIET)
            suggested.success(_enable_with_data, self._data, self._start, **QUIET)
        self._recipe.change(
            _owned(self._write_recipe), self._recipe, self._download_recipe, **QUIET
        )
        poll = [self._job, self._seen]
        shown = [self._job, self._seen, self._state, self._charts, self._samples, self._attention]
        shown += [self._scores, self._pause, self._resume, self._finish, self._delete, self._folder]
        started = self._start.click(
            _owned(self._begin), [self._recipe, *self._card.values()], self._job, **QUIET
        )
        # 3. Watch.
        tab.select(lambda: gr.Timer(active=True), None, self._timer, **QUIET)
        for event in (started.success, self._job.input, tab.select, self._timer.tick):
            event(self._tick, poll, shown, **QUIET)
        for button, act, question in (
            (self._pause, self._jobs.pause, None),
            (self._resume, self._jobs.resume, None),
            (self._finish, self._jobs.finish, None),
            (self._delete, self._delete_run, CONFIRM),
        ):
            acted = button.click(_owned(act), self._job, None, js=question, **QUIET)
            acted.then(self._tick, poll, shown, **QUIET)
        # 4. Try and publish.
        for name, button in self._open.items():
            field = compared if name == "compare" else model
            button.click(_owned(self._offer(name)), self._folder, [field, tabs], **QUIET)
        self._pack_button.click(_owned(self._pack), self._folder, self._zip, **QUIET)
        target = [self._folder, self._repo, self._is_private]
        shows = QUIET | {"show_progress": "full"}
        self._push.click(_owned(self._publish), target, self._pushed, **shows)
        self._space.click(_owned(self._serve), target, self._pushed, **shows)

    # --- data ---

    def _import_sample(self) -> Any:
        return *self._import_pairs([str(training_jobs.SAMPLE)]), SAMPLE_NOTE, SAMPLE_LICENSE

    def _import_chosen(
        self, files: list[str] | None, dataset: str, src: str | None, tgt: str | None, columns: Any
    ) -> Any:
        source = list(files or [])
        if not source:
            name, *config = dataset.split()[:2] or [""]
            if not name:
                raise InputError("upload a file, or name a dataset")
            source = ["--dataset", name, *(["--config", *config] if config else [])]
        languages = [src, tgt] if src and tgt else []
        return self._import_pairs(source, languages, columns or [])

    def _import_pairs(
        self, source: Sequence[str], languages: Sequence[str] = (), columns: Sequence[str] = ()
    ) -> Any:
        folder, report = self._jobs.import_pairs(source, languages, columns)
        starts = [NOTHING]
        for name, pair in list_pairs(self._registry).items():
            starts += [f"{WHOLE} {name}"] if list(pair) == report["languages"] else []
            starts += [f"{ENCODER} {name}"] if pair[0] == report["languages"][0] else []
        return (
            str(folder),
            training_job.import_report(report),
            *report["languages"],
            gr.Dropdown(choices=report["columns"]),
            gr.Dropdown(choices=starts, value=NOTHING),
        )

    # --- start ---

    def _suggest(self, data: str, minutes: float, start: str, threads: float) -> Any:
        if not data:
            return gr.skip()
        kind, _, name = start.rpartition(" ")
        starts = {"start": name, "part": "encoder" if kind == ENCODER else "model"}
        recipe = self._jobs.suggest(Path(data), minutes, **(starts if start != NOTHING else {}))
        n_threads = f"n_threads = {int(threads)}\n\n[data]"
        return recipe.replace("\n[data]", n_threads, 1) if threads else recipe

    def _write_recipe(self, recipe: str) -> str:
        path = self._downloads / "recipe.toml"
        path.write_text(recipe, "utf-8")
        return str(path)

    def _begin(self, recipe: str, *card: str | None) -> Any:
        texts = [text or "" for text in card]
        name = self._jobs.start(recipe, dict(zip(self._card, texts, strict=True)))
        return gr.Dropdown(choices=self._names(self._jobs.list()), value=name)

    # --- watch ---

    def _names(self, jobs: list[Job]) -> list[tuple[str, str]]:
        return [(f"{job.name} ({job.state})", job.name) for job in jobs]

    def _tick(self, name: str | None, seen: Any) -> Any:
        """Show the selected run if it has changed since `seen`; nothing to visitors."""
        if not may_train():
            return (gr.skip(),) * 12
        jobs = self._jobs.list()
        job = next((job for job in jobs if job.name == name), jobs[0] if jobs else None)
        choices = self._names(jobs)
        if job is None:
            hidden = gr.Button(visible=False)
            return (
                gr.Dropdown(choices=[], value=None),
                None,
                "",
                "",
                None,
                None,
                "",
                *[hidden] * 4,
                "",
            )
        now = [choices, job.name, job.message, job.minutes]
        if now == seen:
            return (gr.skip(),) * 12
        run = read_run(job.folder) if (job.folder / "metrics.jsonl").is_file() else None
        best = job.folder / "best"
        return (
            gr.Dropdown(choices=choices, value=job.name),
            now,
            training_job.job_state(job),
            f'<div class="charts">{training_run.progress(run)}</div>' if run else "",
            samples_figure(run) if run else None,
            training_jobs.attention_maps(job.folder),
            training_job.score_table(training_jobs.read_scores(job.folder)),
            gr.Button(visible=job.state in ALIVE),
            gr.Button(visible=job.state in ("paused", "failed")),
            gr.Button(visible=job.state in ("training", "paused")),
            gr.Button(visible=job.state not in ALIVE),
            str(best) if best.is_dir() else "",
        )

    def _delete_run(self, name: str | None) -> None:
        if name is not None:  # confirmed
            self._jobs.delete(name)

    # --- try and publish ---

    def _model_folder(self, folder: str) -> Path:
        path = Path(folder.strip() or ".").expanduser().resolve()
        is_run = path.is_relative_to(self._jobs.folder)
        if not (path / "config.json").is_file() or not (is_run or self._registry.allow_local):
            raise InputError("no model there yet: wait for the first validation, or name a folder")
        return path

    def _offer(self, tab: str) -> Callable[[str], Any]:
        def open_model(folder: str) -> Any:
            path = str(self._model_folder(folder))
            self._registry.offer(path)
            return path, gr.Tabs(selected=tab)

        return open_model

    def _pack(self, folder: str) -> Any:
        path = self._model_folder(folder)
        name = path.parent.name if path.name in ("best", "last") else path.name
        packed = shutil.make_archive(str(self._downloads / name), "zip", path)
        return gr.DownloadButton(value=packed, visible=True)

    def _publish(
        self,
        folder: str,
        repo: str,
        is_private: bool,
        progress: gr.Progress = gr.Progress(track_tqdm=True),  # noqa: B008  # required by Gradio
    ) -> str:
        path = self._model_folder(folder)
        pushed = push(path, repo.strip(), private=is_private, token=_sign_in().get("access_token"))
        return training_job.link(pushed.url, f"{repo} is on the Hub")

    def _serve(self, folder: str, repo: str, is_private: bool) -> str:
        name, token = repo.strip(), _sign_in().get("access_token")
        opened = open_space(name, name, private=is_private, token=token)
        return training_job.link(opened.url, f"the Space {name} is being built")


def _enable_with_data(data: str) -> Any:
    return gr.Button(interactive=bool(data))
