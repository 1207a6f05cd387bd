"""``tallystick demo learn``: digits learned privately, from a budget to a training card. Offline, seconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import console, print_json
from tallystick.errors import InvalidInput, Remedy, Unavailable

if TYPE_CHECKING:
    from tallystick.ledger.account import Account

EPSILON, DELTA, EXAMPLES, STEPS = 1.0, 1e-5, 1437, 100
NEEDS = "the learning demo needs torch and scikit-learn (its digits)"


def learning_story(folder: Path, *, as_json: bool) -> None:
    """Train a digit reader at epsilon 1, paid for by an account, and write its card."""
    try:
        import sklearn.datasets  # noqa: F401
        import torch  # noqa: F401
    except ImportError as missing:
        remedies = [Remedy("install", packages="'.[torch,learn]'")]
        raise Unavailable(f"{NEEDS} (missing: {missing.name})", remedies=remedies) from None
    screen = None if as_json else console()
    account = _account(folder)
    if screen:
        screen.print("[bold]A museum learns to read digits[/bold]: 1,437 handwritten ones, each protected.")
        screen.print(f"The account may lose {account.limit} in all. The run is charged before its first step.")
    trainer, accuracy = _trained(account)
    from tallystick.cards import training_card

    card = training_card(trainer)
    paths = card.save(folder / "training-card.html")
    facts = {
        "epsilon": card.facts["promise"]["epsilon"],
        "delta": DELTA,
        "accuracy": accuracy,
        "card": str(paths[0]),
        "left": account.remaining.to_dict(),
    }
    if screen is None:
        print_json("tallystick/demo", {"asked": {"story": "learn", "out": str(folder)}, "found": facts})
        return
    screen.print(f"{trainer.plan}", soft_wrap=True, markup=False)
    screen.print(
        f"Right on {accuracy:.1%} of 360 digits that were set aside (they count as public here).", markup=False
    )
    screen.print(card.facts["attacker"]["sentence"], soft_wrap=True, markup=False)
    screen.print(f"Paid: {account.used} of {account.limit}", soft_wrap=True, markup=False)
    screen.print("\n[bold]The training card[/bold]: open it in a browser, or print it")
    screen.print(str(paths[0]), soft_wrap=True, markup=False)


def _account(folder: Path) -> Account:
    import tallystick as ts

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for ending in ("", "-wal", "-shm"):
            (folder / f"learn-ledger.db{ending}").unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput("out", str(folder), f"a folder that can be written ({error.strerror})") from error
    budget = ts.approx_dp(epsilon=2, delta=1e-4, unit="digit")
    return ts.Ledger(folder / "learn-ledger.db", first_use="the demo starts again").open("museum", budget=budget)


def _trained(account: Account) -> tuple[Any, float]:
    """A linear model on rows of norm 1, all examples in every step; the settings suit small public data."""
    import torch
    from sklearn.datasets import load_digits

    import tallystick as ts

    pixels, labels = load_digits(return_X_y=True)
    x = torch.nn.functional.normalize(torch.tensor(pixels, dtype=torch.float32))
    y = torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    mine, aside = order[:EXAMPLES], order[EXAMPLES:]
    model = torch.nn.Linear(64, 10)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    plan = ts.learn.sgd_plan(
        epsilon=EPSILON, delta=DELTA, examples=EXAMPLES, batch=EXAMPLES, epochs=STEPS, unit="digit"
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=4.0, momentum=0.9)
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    trainer = ts.learn.torch.Trainer(
        model, loss, optimizer, plan=plan, clip=0.25, account=account, why="a demo: read digits"
    )
    trainer.fit((x[mine], y[mine]))
    right = (model(x[aside]).argmax(1) == y[aside]).float().mean()
    return trainer, float(right)
