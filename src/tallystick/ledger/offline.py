"""Checking an export without a ledger: every rule, seal and signature, from the lines of the file alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tallystick.errors import LedgerIntegrity, Refused
from tallystick.ledger.chain import canonical, fields_of, link
from tallystick.ledger.governance import START, seal_terms
from tallystick.ledger.journal import Position
from tallystick.ledger.replay import Book, Broken
from tallystick.ledger.signing import verified
from tallystick.ledger.texts import TEXT_FIELDS, is_answer, opens
from tallystick.ledger.transfer import ANSWERS, CHAIN, answer_in, level_of, parsed, seal_of, texts_of
from tallystick.ledger.verify import Report


@dataclass(slots=True)
class _Reading:
    """State of reading an export."""

    level: str
    book: Book = field(default_factory=Book)
    head: Position = START
    sealed: int = 0
    texts: dict[int, set[str]] = field(default_factory=dict)
    answers: set[int] = field(default_factory=set)

    def take(self, line: dict[str, Any]) -> None:
        """Check one entry with its texts, answer and seal; raise ``Broken`` if something is wrong."""
        seq, body = self.head.seq + 1, line.get("body")
        is_next = type(line.get("seq")) is int and line["seq"] == seq  # true and 1.0 are equal to 1, and are no numbers
        if not is_next or not isinstance(body, str) or link(self.head.hash, body) != line.get("hash"):
            raise Broken(f"entry {seq} is missing or was altered")
        entry = fields_of(seq, body)
        has_answer = self.level == ANSWERS and entry.get("kind") == "commit"
        needed = {"seq", "hash", "body", *(["answer"] if has_answer else [])}
        if not needed <= line.keys() <= needed | {"seal", *([] if self.level == CHAIN else ["texts"])}:
            raise Broken(f"the line of entry {seq} lacks a field, or has one that level {self.level!r} does not have")
        if canonical(entry) != body:
            raise Broken(f"entry {seq} is not canonical JSON")
        self.book.apply(seq, body)
        self.head = Position(seq, line["hash"])
        for name, (salt, text) in texts_of(line, seq).items():
            if not opens(str(entry.get(name)), salt, text):
                raise Broken(f"the text {name} of entry {seq} was altered")
            self.texts.setdefault(seq, set()).add(name)
        self._take_answer(line, entry)
        if "seal" in line:
            self._take_seal(line, seq)

    def _take_answer(self, line: dict[str, Any], entry: dict[str, Any]) -> None:
        if line.get("answer") is None:
            return
        salt, text = answer_in(line)
        if entry["kind"] != "commit" or text is None or not is_answer(entry["answer_hash"], text, salt):
            raise Broken(f"the answer in entry {self.head.seq} was altered")
        self.answers.add(entry["charge"])

    def _take_seal(self, line: dict[str, Any], seq: int) -> None:
        public, signature = seal_of(line, seq)
        terms = seal_terms(self.book.ledger, self.head)
        if not self.book.is_writer(public, seq) or not verified(terms, public, signature):
            raise Broken(f"the seal of entry {seq} is wrong: it was made without a key of this ledger")
        self.sealed = seq

    def problems(self) -> list[str]:
        """Problems with the export as a whole."""
        found = []
        if self.book.governed is not None and self.sealed != self.head.seq:
            found.append(f"entries after {self.sealed} have no seal: they were written without a key of this ledger")
        if self.level != CHAIN:
            kinds = self.book.kinds.items()
            wanted = {seq: set(TEXT_FIELDS[kind]) for seq, kind in kinds if seq not in self.book.erased}
            missing = [seq for seq, names in wanted.items() if self.texts.get(seq, set()) != names]
            found += [
                f"texts of entry {seq} are missing, and no entry says that they were erased" for seq in missing[:5]
            ]
        back = sorted(self.book.erased & self.texts.keys()) + sorted(self.book.erased_answers & self.answers)
        found += [f"a text or the answer of entry {seq} is there, although it was erased" for seq in back[:5]]
        if self.level == ANSWERS:
            missing = sorted(self.book.answers.keys() - self.answers - self.book.erased_answers)
            found += [f"the answer of ledger entry {seq} is missing" for seq in missing[:5]]
        return found

    def not_checked(self) -> list[str]:
        """Parts that an export of this level does not hold."""
        parts = []
        if self.level == CHAIN:
            parts.append("reasons, keys, questions and notes: this export holds only commitments to them")
        if self.level != ANSWERS:
            parts.append("answers: this export holds only their hashes")
        return parts


def verify_export(lines: Iterable[str], *, by: str | None = None) -> Report:
    """Check an export of any level. ``by`` is the public key that must have signed its checkpoint.

    >>> import tempfile, tallystick as ts
    >>> with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db", config=folder) as ledger:
    ...     clinic = ledger.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
    ...     _ = clinic.pay(ts.zcdp(rho=0.1), why="annual report")
    ...     report = verify_export(ledger.export(level="chain"))
    >>> report.intact, report.charges
    (True, 1)
    """
    reader = parsed(lines)
    opening = next(reader, {})
    reading = _Reading(level_of(opening))
    problems: list[str] = []
    checkpoint: dict[str, Any] = {}
    for line in reader:
        if checkpoint:
            problems.append("the export continues after its checkpoint")
            break
        if "checkpoint" in line:
            checkpoint = line
            continue
        try:
            reading.take(line)
        except (Broken, Refused, LedgerIntegrity, ValueError, LookupError, TypeError) as problem:
            problems.append(str(problem) or "an entry cannot be read")
            break
    if not problems:
        problems += [*reading.problems(), *_checkpoint_problems(reading, opening, checkpoint, by)]
    book, head = reading.book, reading.head
    return Report(
        ledger=book.ledger,
        entries=head.seq,
        head=head.hash,
        accounts=len(book.accounts),
        charges=len(book.charges),
        problems=tuple(problems),
        not_checked=tuple(reading.not_checked()),
        losses=tuple(book.losses),
        free=book.free,
        distrusted=tuple(book.distrusted()),
        sealed=book.governed is not None and not problems,
    )


def _checkpoint_problems(
    reading: _Reading, opening: dict[str, Any], checkpoint: dict[str, Any], by: str | None
) -> list[str]:
    """Problems with the last line of an export."""
    if not checkpoint:
        return ["the export ends without a checkpoint: it was cut off"]
    said, public = checkpoint["checkpoint"], str(checkpoint.get("by"))
    if len(checkpoint) != 3 or not isinstance(said, dict) or said.keys() != {"ledger", "seq", "head", "at"}:
        return ["the checkpoint cannot be read"]
    wanted = {"ledger": reading.book.ledger, "seq": reading.head.seq, "head": reading.head.hash}
    is_same = {name: said[name] for name in wanted} == wanted and type(said["seq"]) is type(said["at"]) is int
    if not is_same or opening.get("ledger") != reading.book.ledger:
        return ["the checkpoint does not match the entries: the export was altered or cut off"]
    if not verified(said, public, str(checkpoint.get("signature"))) or (by is not None and public != by):
        return ["the signature of the checkpoint is wrong"]
    return []
