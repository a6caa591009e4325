"""Plain mode's seven steps on a terminal: every field reachable, answerable, refusable; nothing moves a cursor; resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator_server import EmulatorServer, start_emulator, stop_emulator
from field_samples import TOKENS, invalid_text, valid_text
from plain_terminal import PlainTerminal

from grpo_wizard.state.home import Home
from grpo_wizard.state.store import StateStore
from grpo_wizard.steps.core.answers import Field
from grpo_wizard.steps.core.model import Step
from grpo_wizard.steps.project.permissions import APIS
from grpo_wizard.steps.registry import STEP_NAMES, STEPS, fields


@pytest.fixture
def joined(
    shared_rehearsal: EmulatorServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Path, dict[str, str]]:
    """A home of its own whose rehearsals live on the module's server, and the environment that says so."""
    home = tmp_path / "home"
    home.mkdir()
    server = {
        name: value
        for name, value in shared_rehearsal.address.env.items()
        if name.startswith("GRPO_WIZARD_REHEARSAL")
    }
    return home, server


def _begin(home: Path, name: str, place: str) -> None:
    store = StateStore(Home(home))
    deployment = store.create(name, "rehearsal", {each: {} for each in STEP_NAMES[: STEP_NAMES.index(place)]})
    deployment.place = place
    store.save(deployment)


class Walk:
    """Goes through the questions of a step by what the prompt says, and keeps what it typed."""

    def __init__(self, terminal: PlainTerminal, step: Step) -> None:
        self.terminal, self.step = terminal, step
        self.typed: dict[str, str] = {}

    def field_of(self, prompt: str) -> Field | None:
        named = [
            f for f in self.step.fields if prompt.startswith((f"{f.label} (", f"{f.label}, ", f"{f.label} ["))
        ]
        return max(named, key=lambda f: len(f.label), default=None)

    def first(self, field: Field) -> None:
        """Help, then a refusal, then an answer."""
        terminal, secret = self.terminal, field.kind == "secret"
        terminal.send_line("?")
        terminal.wait_for(f"Help: {field.help[:30]}".encode("ascii", "ignore").decode()[:20])
        terminal.wait_for("! skips to the checks.")
        assert self.field_of(terminal.wait_for_prompt()) is field
        terminal.send_line(invalid_text(field))
        terminal.wait_for("Invalid: ")
        assert self.field_of(terminal.wait_for_prompt()) is field
        terminal.send_line(valid_text(field))
        if secret:
            assert valid_text(field) not in terminal.output
            terminal.wait_for("Set: ********" + valid_text(field)[-4:])

    def questions(self, answer: Callable[[Field], str | None]) -> None:
        """To the menu; `answer` says what to type, or None to do all that `first` does."""
        while "/l)" not in (prompt := self.terminal.wait_for_prompt()):
            field = self.field_of(prompt)
            if field is None:
                assert prompt.startswith("Show "), prompt
                self.terminal.send_line("yes")
                continue
            text = answer(field)
            if text is None:
                self.first(field)
                self.typed[field.name] = valid_text(field)
            else:
                self.terminal.send_line(text)
                self.typed |= {field.name: text} if text else {}
        self.menu = prompt

    def again(self, field: Field) -> str | None:
        """The second time the other value of what may hide questions; those that were hidden now do all."""
        if field.name not in self.typed:
            return None
        if field.kind == "switch":
            return "yes" if field.default else "no"
        return field.choices[0] if field.choices and len(field.choices) < 7 else ""


def test_every_field_is_reached_helped_refused_and_answered(joined: tuple[Path, dict[str, str]]) -> None:
    """In one go through all seven steps, on a dumb terminal; what was typed is what is kept."""
    home, server = joined
    StateStore(Home(home)).create("alpha", "rehearsal", {})
    walked: dict[str, set[str]] = {}
    with PlainTerminal(home, "--deployment", "alpha", **server) as terminal:
        before = None
        for number, step in enumerate(STEPS, 1):
            terminal.wait_for(f"Step {number} of 7: {step.title}")
            if before is not None:
                _holds(home, before)
            before = walk = Walk(terminal, step)
            walk.questions(lambda field, walk=walk: "" if field.name in walk.typed else None)  # type: ignore[misc]
            if len(walk.typed) < len(step.fields):
                terminal.send_line("c")
                terminal.reply("Which answer", "a")
                walk.questions(walk.again)
            walked[step.name] = set(walk.typed)
            terminal.send_line("n" if "(n/" in walk.menu else "g")
        terminal.wait_for("Review.")
        _holds(home, walk)
        terminal.interrupt()
        assert terminal.wait_for_exit() == 130
    assert walked == {step.name: {field.name for field in step.fields} for step in STEPS}
    assert "\x1b" not in terminal.output and terminal.output.isascii()
    assert not any(token in terminal.output or token in _everything(home) for token in TOKENS.values())


def _holds(home: Path, walk: Walk) -> None:
    kept = _state(home)["answers"][walk.step.name]
    for name, text in walk.typed.items():
        field = walk.step.field(name)
        if field.kind != "secret" and (name in kept or not callable(field.default)):
            assert kept.get(name, field.default) == field.parse(text), name


def _state(home: Path) -> Any:
    return json.loads((home / "deployments" / "alpha" / "state.json").read_text())


def _everything(home: Path) -> str:
    return "".join(file.read_text("utf-8", "replace") for file in home.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", STEP_NAMES)
def test_it_opens_again_at_the_step_where_it_was_left(name: str, joined: tuple[Path, dict[str, str]]) -> None:
    """ctrl+c in the middle of a step keeps what was answered, says how to go on, and ends with 130."""
    home, server = joined
    _begin(home, "alpha", name)
    step = STEPS[STEP_NAMES.index(name)]
    field = next(f for f in step.fields if not f.advanced and f.kind in ("text", "integer"))
    with PlainTerminal(home, "--deployment", "alpha", **server) as terminal:
        terminal.wait_for(f"Rehearsal. Step {STEP_NAMES.index(name) + 1} of 7: {step.title}")
        while not terminal.wait_for_prompt().startswith(field.label):
            terminal.send_line("")
        terminal.send_line(valid_text(field))
        terminal.wait_for_prompt()
        terminal.interrupt()
        terminal.wait_for("To continue: grpo-wizard --plain --deployment alpha")
        assert terminal.wait_for_exit() == 130
    assert _state(home)["place"] == name
    assert _state(home)["answers"][name][field.name] == field.parse(valid_text(field))


def test_the_first_line_says_the_mode_and_what_chose_it(tmp_path: Path) -> None:
    for words, environment, said in (
        (["--plain"], {"TERM": "xterm"}, "--plain"),
        ([], {"TERM": "xterm", "ACCESSIBLE": "1"}, "ACCESSIBLE=1"),
        ([], {"TERM": "dumb", "NO_COLOR": "1"}, "TERM=dumb"),
    ):
        with PlainTerminal(tmp_path / "home", *words, **environment) as terminal:
            assert terminal.wait_for("\r\n") == f"grpo-wizard is running in plain mode, enabled by {said}."
            terminal.reply("leave", "l")
            assert terminal.wait_for_exit() == 0
            assert "\x1b" not in terminal.output


@pytest.mark.parametrize("locale", ["C", "en_GB.ISO-8859-1"])
def test_a_terminal_that_knows_only_ascii_gets_only_ascii(
    locale: str, joined: tuple[Path, dict[str, str]]
) -> None:
    home, server = joined
    _begin(home, "alpha", "raycluster")
    with PlainTerminal(
        home, "--deployment", "alpha", "--plain", TERM="xterm", LANG=locale, LC_ALL=locale, **server
    ) as terminal:
        terminal.reply("RayCluster (", "b\N{LATIN SMALL LETTER U WITH DIAERESIS}")
        terminal.wait_for("Invalid: ")
        terminal.wait_for_prompt()
        terminal.send_line("?")
        terminal.wait_for("! skips")
        terminal.interrupt()
        assert terminal.wait_for_exit() == 130
    assert "\x1b" not in terminal.output
    assert terminal.output.replace("b\N{LATIN SMALL LETTER U WITH DIAERESIS}", "").isascii()


def test_all_fields_have_labels_that_a_prompt_can_be_told_apart_by() -> None:
    seen: dict[tuple[str, str], Any] = {}
    for step, field in fields():
        assert seen.setdefault((step.name, field.label), field) is field


def test_the_apis_are_enabled_from_the_menu_and_the_checks_look_until_they_are_felt(tmp_path: Path) -> None:
    """Felt a minute after they are on (3 s here): the first look after that still meets the old answers."""
    home = tmp_path / "home"
    server = start_emulator(home, "20", ray="none")
    _begin(home, "alpha", "cluster")
    try:
        with PlainTerminal(home, "--deployment", "alpha", speed="20") as terminal:
            terminal.wait_for("Step 4 of 7")
            terminal.wait_for_prompt()
            terminal.send_line("!")
            terminal.wait_for("checks are waiting for APIs that apply will enable (")
            assert "/e/" in terminal.wait_for_prompt()
            terminal.send_line("e")
            terminal.wait_for("The APIs are enabled.")
            after = terminal.wait_for("? (")
            assert "Check: " in after and "waiting for APIs" not in after
            assert "/e/" not in (menu := terminal.wait_for_prompt()) and "/l)" in menu
            terminal.send_line("l")
            terminal.wait_for_exit()
    finally:
        stop_emulator(server)
    assert {r.kind for r in StateStore(Home(home)).load("alpha").resources.values()} == {"api"}


def test_what_could_not_be_looked_at_is_asked_anew_after_a_change(tmp_path: Path) -> None:
    home = tmp_path / "home"
    server = start_emulator(home, ray="none")
    _begin(home, "alpha", "cluster")
    try:
        with PlainTerminal(home, "--deployment", "alpha") as terminal:
            terminal.wait_for("Step 4 of 7")
            terminal.wait_for_prompt()
            terminal.send_line("!")
            terminal.wait_for("checks are waiting for APIs that apply will enable (")
            terminal.wait_for_prompt()
            server.enable(*APIS)  # by somebody else
            terminal.send_line("c")
            terminal.reply("Which answer", "1")
            terminal.wait_for_prompt()
            terminal.send_line("")
            assert "waiting for APIs" not in terminal.wait_for("? (")
            assert "/e/" not in terminal.wait_for_prompt()
            terminal.send_line("l")
            assert terminal.wait_for_exit() == 0
    finally:
        stop_emulator(server)
