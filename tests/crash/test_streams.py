"""A stream of answers under one charge: kills, races and forks never give one item two answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from crash import streams
from crash.killing import in_child
from crash.stores import Clock
from tallystick.errors import AnswerLost, Refused, Unavailable
from tallystick.ledger import Ledger
from tallystick.ledger.stream import AnswerStream


def _answer_until(place: str, config: Path, clock: Clock, key: str, probe: Callable[[str], None], seen: int) -> None:
    """Answer item 0 of a stream and say what was drawn and delivered; ``probe`` hears every point from then on."""
    heard: list[bool] = []

    def listen(name: str) -> None:
        if heard:
            probe(name)

    stream = streams.opened(Ledger(place, config=config, probe=listen, clock=clock), key=key)
    heard.append(True)

    def draw() -> str:
        table = streams.fresh_table()
        streams.say(seen, "drawn", 0, table)
        listen("after the draw")
        return table

    paid = stream.answer(0, draw)
    streams.say(seen, "delivered", 0, paid.answer)
    listen("after delivery")


def _points(place: str, config: Path, clock: Clock) -> list[str]:
    """The named points that an answer passes, in order, each once."""
    names: list[str] = []
    with open(os.devnull, "wb") as unheard:
        _answer_until(place, config, clock, "scout", names.append, unheard.fileno())
    return list(dict.fromkeys(names))


def _kill_at(place: str, config: Path, clock: Clock, key: str, point: str) -> dict[str, str]:
    """Answer an item in a process that kills itself at the point; return what it drew and delivered."""
    reader, writer = os.pipe()

    def kill_here(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    status, _ = in_child(lambda _: _answer_until(place, config, clock, key, kill_here, writer))
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, f"{point} was not reached"
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lines = [line.split("\t") for line in pipe.read().splitlines()]
    return {kind: text for kind, _, text in lines}


def _ending(stream: AnswerStream, traces: dict[str, str]) -> str:
    """Ask again for item 0 after its worker was killed; fail if that could be a second draw."""
    drawn_again: list[str] = []

    def draw() -> str:
        drawn_again.append(streams.fresh_table())
        return drawn_again[0]

    try:
        paid = stream.answer(0, draw)
    except AnswerLost:
        assert "delivered" not in traces
        return "lost"
    if drawn_again:
        assert not traces, "the item was drawn before the kill, and again after it"
        return "fresh"
    assert paid.answer == traces["drawn"] == traces.get("delivered", paid.answer)
    return "replayed"


def test_a_kill_at_any_point_never_gives_an_item_two_answers(place: str, config: Path) -> None:
    clock = Clock()
    points = _points(place, config, clock)
    endings = {}
    for number, point in enumerate(points):
        key = f"killed-{number}"
        traces = _kill_at(place, config, clock, key, point)
        clock.seconds += 2 * streams.LEASE
        with Ledger(place, config=config, clock=clock) as ledger:
            stream = streams.opened(ledger, key=key)
            endings[point] = _ending(stream, traces)
            assert stream.answer(1, lambda: "next").answer == "next"
    with Ledger(place, config=config, clock=clock) as ledger:
        assert ledger.verify().problems == ()
    assert endings["begin: before COMMIT"] == "fresh"
    assert endings["begin: after COMMIT"] == endings["after the draw"] == endings["commit: before COMMIT"] == "lost"
    assert endings["commit: after COMMIT"] == endings["after delivery"] == "replayed"


def test_an_item_whose_worker_died_is_held_until_its_lease_ends(place: str, config: Path) -> None:
    clock = Clock()
    _kill_at(place, config, clock, "board", "after the draw")
    with Ledger(place, config=config, clock=clock) as ledger:
        stream = streams.opened(ledger)
        with pytest.raises(Unavailable):
            stream.answer(0, streams.fresh_table)
        clock.seconds += 2 * streams.LEASE
        with pytest.raises(AnswerLost):
            stream.answer(0, streams.fresh_table)


WORK = pytest.mark.parametrize("work", [streams.answer_all, streams.take_all])


@WORK
def test_processes_that_race_for_the_same_items_use_each_once(
    place: str, config: Path, work: Callable[[AnswerStream, int], None]
) -> None:
    lines = streams.race(place, config, work, AnswerStream)
    assert list(streams.complaints(lines)) == []
    with Ledger(place, config=config) as ledger:
        assert ledger.verify().problems == ()


def test_the_race_catches_a_stream_that_draws_before_it_takes(place: str, config: Path) -> None:
    lines = streams.race(place, config, streams.answer_all, streams.HastyStream)
    problems = list(streams.complaints(lines))
    assert any("drawn" in problem for problem in problems)
    assert any("answers" in problem for problem in problems)


def test_the_race_catches_a_stream_that_does_not_ask_who_took_a_block(place: str, config: Path) -> None:
    lines = streams.race(place, config, streams.take_all, streams.DeafStream)
    assert any("taken" in problem for problem in streams.complaints(lines))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_reads_the_answers_of_its_parent(place: str, config: Path) -> None:
    with Ledger(place, config=config) as ledger:
        stream = streams.opened(ledger)
        mine = stream.answer(0, streams.fresh_table).answer
        _, traces = in_child(lambda seen: streams.answer_all(stream, seen))
        theirs = traces.delivered
        assert theirs["0"] == mine
        for number in range(streams.ITEMS):
            assert stream.answer(number, streams.fresh_table).answer == theirs[str(number)]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_draw_leaves_one_answer(place: str, config: Path) -> None:
    with Ledger(place, config=config) as ledger:
        stream = streams.opened(ledger)
        children: list[int] = []

        def draw() -> str:
            children.append(os.fork())
            if children[0]:
                os.waitpid(children[0], 0)  # the child stores its answer first
            return streams.fresh_table()

        parent = os.getpid()
        try:
            stream.answer(0, draw)
        except Refused:
            outcome = "refused"
        else:
            outcome = "stored"
        if os.getpid() != parent:
            os._exit(0)
        assert outcome == "refused"
        stored = stream.replay(0)
        assert stored is not None
        assert stored.answer.startswith(f"table-{children[0]}-")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_takes_no_item_of_the_block_in_hand(place: str, config: Path) -> None:
    with Ledger(place, config=config) as ledger:
        stream = streams.opened(ledger, block=2)
        assert stream.take() == 0
        reader, writer = os.pipe()
        in_child(lambda _: streams.take_all(stream, writer))
        os.close(writer)
        with os.fdopen(reader) as pipe:
            theirs = [int(line.split("\t")[1]) for line in pipe.read().splitlines()]
        assert theirs == list(range(2, streams.ITEMS))
        assert (stream.take(), stream.take()) == (1, None)
