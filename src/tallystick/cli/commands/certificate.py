"""``tallystick certificate``: write a number that another person can check, and check one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver, working
from tallystick.digits import ACCOUNTANT, typed, up
from tallystick.errors import InvalidInput
from tallystick.regular_file import read_text

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.accounting.certificate import Certificate

app = typer.Typer(help="Write and check certificates.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def write(
    expression: Expression,
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    delta: Annotated[float | None, typer.Option("--delta", help="Certify an epsilon at this delta.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Or a delta at this epsilon.")] = None,
    as_json: Json = False,
) -> None:
    """Write a file that proves the epsilon of a loss. Anyone with the checker can verify it."""
    from tallystick.accounting.expression import read_loss

    loss = read_loss(expression)
    if out.exists():
        raise InvalidInput("out", str(out), "a file that does not exist yet")
    with working("proving"):
        proof = loss.certificate(delta=delta, epsilon=epsilon)
    proof.write(out)
    _say("certificate.write", out, proof, f"written to {out}", {}, as_json=as_json)


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The certificate.")],
    as_json: Json = False,
) -> None:
    """Prove a certificate's claim again from the file alone. Exit 4 if it is not proved, 2 if it cannot be read."""
    from tallystick.accounting.certificate import Certificate

    try:
        text = read_text(file)
    except (OSError, UnicodeError) as problem:
        raise InvalidInput("FILE", str(file), f"a certificate ({type(problem).__name__})") from None
    proof = Certificate(text)
    with working("checking"):
        proof.verify()
    _say("certificate.check", file, proof, "proved", {"proved": True}, as_json=as_json)


def _say(command: str, file: Path, proof: Certificate, done: str, more: dict[str, bool], *, as_json: bool) -> None:
    found = {"epsilon": proof.epsilon, "delta": proof.delta, "about": proof.about, "hash": proof.hash, **more}

    def say(out: Console) -> None:
        out.print(
            f"epsilon [bold]{up(proof.epsilon, ACCOUNTANT)}[/bold] at delta {typed(proof.delta)}: {done}",
            soft_wrap=True,
        )
        out.print(f"about {proof.about}", soft_wrap=True, markup=False)
        out.print(f"sha256 {proof.hash}", soft_wrap=True)

    deliver(Answer(command, {"file": str(file)}, found, say), as_json=as_json)
