"""The bar on a terminal, and silence elsewhere; Ctrl-C."""

import io
import sys

from omnivoice import __main__ as command_line
from omnivoice.commands import speech_options


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_fills_and_ends_the_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    for done in range(1, 5):
        speech_options.show_progress(done, 4)
    drawn = sys.stderr.getvalue()
    assert drawn.count("\r") == 4
    assert drawn.endswith("] 4/4\n")
    assert "#" * speech_options.BAR in drawn


def test_no_bar_in_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    speech_options.show_progress(1, 4)
    assert sys.stderr.getvalue() == ""


def test_interrupt_exits_130(monkeypatch, capsys, checkpoint, tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    monkeypatch.setattr(speech_options, "show_progress", interrupt)
    output = tmp_path / "x.wav"
    code = command_line.main(["speak", "Hello.", "--model", str(checkpoint), "-o", str(output)])
    assert code == 130
    assert "interrupted" in capsys.readouterr().err
    assert not output.exists()
