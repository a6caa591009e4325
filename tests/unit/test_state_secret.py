"""Secrets: they show themselves to nobody, and a pasted one is cleaned or refused."""

import copy
import json
import logging
import pickle
import traceback
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from grpo_wizard.state.errors import InvalidSecret
from grpo_wizard.state.secret import MASK, Secret, from_environment, from_file, parse_secret

TOKEN = "hf_EXAMPLEexampleEXAMPLE0123"


class Holder(BaseModel):
    """A model that somebody put a secret into."""

    token: Secret


def test_no_text_form_shows_the_token(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(TOKEN)
    logging.getLogger("x").warning("token %s %r", secret, secret)
    holder = Holder(token=secret)
    plain = [str(secret), repr(secret), f"{secret}", f"{secret:>40}", "{}".format(secret)]  # noqa: UP032
    for text in (*plain, repr([secret]), repr(holder), str(vars(holder)), caplog.text):
        assert MASK in text
        assert "EXAMPLE" not in text
    assert secret.reveal() == TOKEN


def test_every_encoder_refuses_it() -> None:
    secret = Secret(TOKEN)
    with pytest.raises(TypeError):
        json.dumps({"token": secret})
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    for mode in ("python", "json"):
        with pytest.raises((PydanticSerializationError, TypeError)):
            Holder(token=secret).model_dump(mode=mode)
    with pytest.raises(PydanticSerializationError):
        Holder(token=secret).model_dump_json()


def test_it_compares_by_value_and_its_copies_are_itself() -> None:
    secret = Secret(TOKEN)
    assert secret == Secret(TOKEN) and secret != Secret(TOKEN + "x") and secret != TOKEN
    assert len({secret, Secret(TOKEN)}) == 1
    assert copy.copy(secret) is secret and copy.deepcopy([secret])[0] is secret


def test_the_hint_is_the_last_four_and_nothing_of_a_short_token() -> None:
    assert Secret(TOKEN).masked() == MASK + "0123"
    assert Secret("hf_EXAMPLE").masked() == MASK


@pytest.mark.parametrize("raw", [TOKEN + "\n", f" {TOKEN} ", f"\t{TOKEN}\r\n", f"\u00a0{TOKEN}\u2028"])
def test_blanks_at_the_ends_are_trimmed_with_a_note(raw: str) -> None:
    secret, note = parse_secret(raw)
    assert secret.reveal() == TOKEN
    assert note is not None and "EXAMPLE" not in note
    assert parse_secret(TOKEN) == (secret, None)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("hf_EX AMPLE", "a whitespace character (U+0020) as character 6"),
        ("hf_EX\nAMPLE", "U+000A"),
        ("hf_EXAMPLE\u200b", "zero width space (U+200B)"),
        ("\ufeffhf_EXAMPLE", "zero width no-break space (U+FEFF)"),
        ("hf_EX\u00a0AMPLE", "a whitespace character (U+00A0)"),
        ("hf_EXÄMPLE", "non-ASCII"),
        ("hf_EX\x00AMPLE", "U+0000"),
        ("hf_EX\udcffAMPLE", "U+DCFF"),
        ("", "empty"),
        (" \n", "empty"),
        ("x" * 5000, "too long"),
    ],
)
def test_blanks_inside_and_signs_that_nobody_sees_are_refused_by_name(raw: str, said: str) -> None:
    with pytest.raises(InvalidSecret) as caught:
        parse_secret(raw)
    assert said in caught.value.title
    told = json.dumps(caught.value.to_json())
    assert not any(part in told for part in ("AMPLE", "hf_", "xxx"))


def test_a_traceback_that_prints_local_variables_does_not_show_a_refused_token() -> None:
    with pytest.raises(InvalidSecret) as caught:
        parse_secret("hf_EX AMPLE")
    assert caught.tb is not None
    below = caught.tb.tb_next
    told = traceback.TracebackException(InvalidSecret, caught.value, below, capture_locals=True)
    shown = "".join(told.format())
    assert "in parse_secret" in shown and "AMPLE" not in shown


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text(max_size=30))
def test_what_is_accepted_is_one_word_of_visible_ascii(raw: str) -> None:
    try:
        token = parse_secret(raw)[0].reveal()
    except InvalidSecret:
        return
    assert token and token == raw.strip()
    assert all(33 <= ord(sign) <= 126 for sign in token)
    assert token.encode("latin-1")


def test_the_environment_gives_a_token_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN + "\n")
    found = from_environment("HF_TOKEN")
    assert found is not None and found[0] == Secret(TOKEN) and found[1]
    monkeypatch.setenv("HF_TOKEN", " ")
    assert from_environment("HF_TOKEN") is None
    monkeypatch.delenv("HF_TOKEN")
    assert from_environment("HF_TOKEN") is None


def test_a_file_gives_a_token_and_every_refusal_names_the_file_not_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(TOKEN.encode() + b"\r\n")
    assert from_file(file)[0].reveal() == TOKEN
    for data in (TOKEN.encode("utf-16"), b"\xff" + TOKEN.encode()):
        file.write_bytes(data)
        with pytest.raises(InvalidSecret, match="token") as caught:
            from_file(file)
        assert "EXAMPLE" not in str(caught.value)
        assert caught.value.__cause__ is None and caught.value.__context__ is None
    file.write_bytes(b"\xef\xbb\xbf" + TOKEN.encode())
    with pytest.raises(InvalidSecret, match=r"U\+FEFF"):
        from_file(file)
    with pytest.raises(InvalidSecret, match="cannot be read"):
        from_file(tmp_path)
