"""Registered data of the golden ledgers, and tables, statements, models and training runs that were paid for."""

from __future__ import annotations

import contextlib
from typing import Any

import tallystick as ts
from golden import asked
from golden.asked import DELTA, ROOT, SERVER
from golden.maker import Maker, commit, plain

ABOUT = {
    "window": "January to June 2026",
    "bounds_from": "the length of a stay is at most 30 days",
    "limit_reason": "an example, not a policy",
    "decided_by": "the board",
    "contact": "data@example.org",
    "title": "Visits",
    "release_type": "Many releases",
    "product_type": "Summary statistics",
}
CAPS = ("--max-groups", "2", "--max-rows-per-group", "3")
TYPES = ("--type", "age=integer", "--type", "visited=date")
BOUNDS = ("--bounds", "age=0:110", "--bounds", "days=0:30", "--bounds", "cost=0:4000")


def register_data(maker: Maker) -> None:
    """Datasets of every kind of source, with caps, bounds, decisions, prices, and updates."""
    register_visits(maker)
    register_databases(maker)
    register(maker, "stays.parquet", "guests", *CAPS, *BOUNDS, "--limit", "epsilon=50,delta=1e-3", "--replace-one",
             "--person", "guest")  # fmt: skip
    rows = ["dataset", "add", str(ROOT / "rows.csv"), "--population", "rows", "--unit", "each-row", *TYPES]
    maker.tool(*rows, *BOUNDS, "--limit", "epsilon=20")
    maker.tool("account", "open", "curve", "--budget", "renyi_dp({8: 90})", "--unit", "patient")
    register(maker, "wards.parquet", "curve", *CAPS, *BOUNDS)
    for name in ("closed", "cleared"):
        register(maker, f"{name}.csv", f"{name} people", *CAPS, "--limit", "rho=1")
    register(maker, "suggested.csv", "suggested people", "--type", "cost=number", "--limit", "rho=2,delta=1e-6")


def register(maker: Maker, source: str, population: str, *options: str) -> None:
    """Register a table of people."""
    place = source if "://" in source else str(ROOT / source)
    maker.tool("dataset", "add", place, "--population", population, "--unit", "patient_id", *options)


def listed(column: str, file: str) -> tuple[str, ...]:
    """The public groups of a column, for statements in SQL."""
    return ("--keys", f"{column}={ROOT / file}")


def register_visits(maker: Maker) -> None:
    """A CSV file with everything that an owner can say, and two updates."""
    about = [word for name, text in ABOUT.items() for word in ("--about", f"{name}={text}")]
    groups = [*listed("region", "regions.csv"), *listed("sex", "sexes.csv"), "--key-delta", "1e-8"]
    prices = ["--per-query", "rho=0.02", "--most-per-query", "rho=0.5", "--version", "2026-06"]
    first = [*CAPS, *BOUNDS[:4], "--limit", "rho=40,delta=1e-3", *about, *groups, *prices]
    register(maker, "visits.csv", "patients", *TYPES, *first)
    reason = "bounds_from=a second look at the rules"
    register(maker, "visits.csv", "patients", *TYPES, *BOUNDS[4:], "--update", "--about", reason)
    register(maker, "visits.csv", "patients", *TYPES, "--least-price", "rho=0.001", "--update")


def register_databases(maker: Maker) -> None:
    """Tables of a DuckDB file and of a PostgreSQL server."""
    regions = [*listed("region", "regions.csv"), "--version", "1"]
    costs = ["--table", "costs", "--name", "costs", *CAPS, *BOUNDS, "--limit", "mu=9"]
    register(maker, "clinic.duckdb", "members", *costs, *regions)
    one = ["--max-groups", "1", "--max-rows-per-group", "1", *listed("sex", "sexes.csv"), "--version", "1"]
    register(maker, "clinic.duckdb", "members", "--table", "people", "--name", "people", *one)
    admissions = ["--table", "admissions", "--name", "admissions", *CAPS, *BOUNDS, "--limit", "rho=10,delta=1e-4"]
    register(maker, SERVER, "admitted", *admissions, *regions)


def register_by_program(maker: Maker) -> None:
    """Registrations without a note, with a moved source, with a least price, and of a block."""
    with maker.book() as book:
        account = book.open("zcdp")
        account.register("no note")
        account.register("moved", source="warehouse.example/stays", fixed={"unit": "person"})
        account.register("moved", source="warehouse.example/stays2", fixed={"unit": "person"}, update=True)
        account.register("priced", source=str(ROOT / "moved.csv"), least_price=ts.zcdp(rho=0.01))
        book.open("area north zcdp").register("of a block", source="warehouse.example/north")


def register_notes(maker: Maker) -> None:
    """Registrations with a note in the words of a program. The dataset commands refuse a ledger that holds one."""
    with maker.book() as book:
        account = book.open("people", budget=ts.zcdp(rho=1), unit="person")
        account.register("extract", source="warehouse.example/1", note="an extract of 2026", fixed={"unit": "person"})
        later = {"source": "warehouse.example/2", "note": "an extract of 2027", "fixed": {"unit": "person"}}
        account.register("extract", **later, update=True)
        account.register("JSON", note='{"owner": "the board"}')
        maker.keep("people", commit(account, ts.zcdp(rho=0.1), "people", answer=1))


def close_data(maker: Maker) -> None:
    """One population whose data is closed after a failure, and one that its owner has opened again."""
    with maker.book() as book:
        for name in ("closed", "cleared"):
            account = book.open(f"{name} people")
            source = f"file {ROOT / f'{name}.csv'}"
            charge = account.charge(ts.zcdp(rho=0.1), why="fails", key=f"fails/{name}", source=source)
            with contextlib.suppress(ZeroDivisionError), charge:
                _ = 1 / 0
    maker.tool("dataset", "clear", "cleared", "--why", "the disk was full")
    maker.tool("query", "cleared", "--measures", "count_units", "--rho", "0.1", "--why", "after that", "--key", "after")


PLANS: dict[str, tuple[str, ...]] = {
    "public groups": ("visits", "--by", "region,sex", "--keys", "cells.csv", "--measures",
                      "count,count_units,count_units(days),sum(cost),mean(age)", "--rho", "0.2"),
    "private groups": ("visits", "--by", "region", "--private-keys", "1e-7", "--measures",
                       "count_units,mean(cost)", "--rho", "0.3"),
    "private groups of two columns": ("visits", "--by", "region,visited", "--private-keys", "1e-7", "--measures",
                                      "count", "--rho", "0.3"),
    "spread": ("visits", "--by", "region", "--keys", "regions.csv", "--measures",
               "variance(age),standard_deviation(cost),median(age),quantile(cost,0.9)", "--rho", "0.5"),
    "over the caps": ("visits", "--by", "region", "--keys", "regions.csv", "--measures",
                      "count,units_over_cap,rows_over_cap(10)", "--rho", "0.2", "--caps-share", "0.2"),
    "total": ("visits", "--measures", "count_units", "--rho", "0.05", "--caps-share", "0"),
    "condition": ("visits", "--by", "sex", "--keys", "sexes.csv", "--measures", "count,sum(long,0,60)", "--where",
                  "age >= 65 AND ill = 'yes'", "--derive", "long = days * 2", "--rho", "0.1"),
    "days": ("visits", "--by", "visited", "--keys", "days.csv", "--measures", "count", "--rho", "0.1"),
    "joined": ("visits", "--join", "countries.csv", "--by", "country", "--private-keys", "1e-7", "--measures",
               "count_units", "--rho", "0.1"),
    "by error": ("visits", "--by", "sex", "--keys", "sexes.csv", "--measures", "count_units", "--error", "12"),
    "replace": ("stays", "--by", "sex", "--keys", "sexes.csv", "--measures", "count_units,mean(age)", "--epsilon",
                "2", "--delta", "1e-7"),
    "replace pure": ("stays", "--by", "sex", "--keys", "sexes.csv", "--measures", "count", "--epsilon", "1"),
    "database": ("costs", "--by", "region", "--keys", "regions.csv", "--measures", "count,sum(cost)", "--rho", "0.04"),
    "each row": ("rows", "--by", "sex", "--keys", "sexes.csv", "--measures", "count,median(age)", "--epsilon", "1"),
    "server": ("admissions", "--by", "region", "--keys", "regions.csv", "--measures", "count_units,mean(cost)",
               "--rho", "0.1"),
    "curve": ("wards", "--by", "sex", "--keys", "sexes.csv", "--measures", "count,mean(age)", "--rho", "0.1"),
}  # fmt: skip
UNCARDED = ("private groups of two columns", "days", "joined", "by error", "total")
"""Published tables without a card, so that the folder stays small."""


def located(word: str) -> str:
    """A public list by its place in the fixed folder."""
    return str(ROOT / word) if word.endswith(".csv") else word


def publish_tables(maker: Maker) -> None:
    """Saved plans that were published, each with its table and most with a card."""
    for name, words in PLANS.items():
        options = [located(word) for word in words]
        plan = maker.file("plans", f"{name}.json")
        maker.tool("publish", "plan", *options, "--out", str(plan))
        table = maker.file("tables", f"{name}.csv")
        card = [] if name in UNCARDED else ["--card", str(maker.file("cards", f"{name}.html"))]
        key = [] if name == "total" else ["--key", f"table/{name}"]
        found = maker.tool("publish", "run", str(plan), "--why", "golden", *key, "--out", str(table), *card)
        facts = {"dataset": words[0], "hash": found["plan_hash"], "key": found["key"], "charge": found["charge"]}
        maker.note("plans", name, facts)


def publish_in_python(maker: Maker) -> None:
    """A histogram, a card with a certificate, and a table of a block of a partition: made with the Python surface."""
    from tallystick.cards import card
    from tallystick.publish import datasets

    with maker.book() as book:
        visits = datasets.find("visits", book)
        table = visits.opened(book.open("patients"))
        grouped = table.group_by("sex", keys=[("f",), ("m",)])
        plan = grouped.agg(ages=ts.histogram("age", [0, 20, 40, 60, 80, 110]), n=ts.count()).plan(rho=0.2)
        made = plan.release(why="golden", key="table/histogram", dataset="visits")
        write_release(maker, "histogram", made)
        proof = made.plan.privacy.certificate(delta=1e-6)
        card(made, dataset="visits", about=visits.about, certificate=proof).save(maker.file("cards", "histogram.html"))
        proof.write(maker.file("certificates", "histogram.json"))
    cut = ("--partition", "area", "--by", "public attribute", "--one-block-per-unit")
    limit = ("--budget", "zcdp(rho=9, delta=1e-4)", "--parent", "patients", *cut)
    maker.tool("account", "open", "patients north", *limit, "--where", "region=north")
    query = ("query", "visits", "--account", "patients north", "--by", "sex", "--keys", str(ROOT / "sexes.csv"))
    words = (*query, "--measures", "count", "--rho", "0.1", "--why", "golden", "--key", "table/block")
    maker.tool(*words, "--out", str(maker.file("tables", "block.csv")))
    maker.note("queries", "block", list(words))
    maker.tool("query", "visits", "--measures", "count", "--rho", "0.1", "--why", "without a key")
    again = ("charge", "add", "zcdp(rho=0.01)", "--account", "zcdp", "--key", "elsewhere", "--why", "golden")
    maker.note("elsewhere", "words", list(again))
    maker.note("elsewhere", "charge", maker.tool(*again)["charge"])


def write_release(maker: Maker, name: str, made: Any) -> None:
    """A release that was made in Python: its plan, its table, its receipt."""
    maker.file("plans", f"{name}.json").write_text(plan_file("visits", made.plan))
    maker.file("tables", f"{name}.csv").write_text(made.to_csv(), newline="")
    maker.keep(name, made.receipt)
    facts = {"dataset": "visits", "hash": made.plan.hash, "key": f"table/{name}", "charge": made.receipt.charge}
    maker.note("plans", name, facts)


def plan_file(dataset: str, plan: Any) -> str:
    """A plan as ``publish plan --out`` writes it."""
    from tallystick.publish.export import saved

    return saved(dataset, plan)


def publish_loose(maker: Maker) -> None:
    """Tables of sources that are not registered, and of a table in memory."""
    with maker.book() as book:
        account = book.open("zcdp")
        for name in (*asked.LOOSE, "memory"):
            made = asked.loose_plan(name, account).release(why="golden", key=f"loose/{name}")
            maker.file("loose", f"{name}.json").write_text(made.plan.to_json())
            maker.file("loose", f"{name}.csv").write_text(made.to_csv(), newline="")
            maker.keep(f"loose {name}", made.receipt)
            maker.note("loose", name, {"hash": made.plan.hash, "charge": made.receipt.charge})


def ask_statements(maker: Maker) -> None:
    """Statements in SQL, three of them with a card."""
    from tallystick.cards import card

    with maker.book() as book:
        for name, options in asked.STATEMENTS.items():
            words = {**options, "public": {k: str(ROOT / v) for k, v in options.get("public", {}).items()}}
            text = words.pop("text")
            answer = ts.sql(text, ledger=book, why="golden", **words)
            maker.file("sql", f"{name}.csv").write_text(answer.to_csv(), newline="")
            maker.note("statements", name, {"charge": answer.release.receipt.charge, "plan": answer.release.plan.hash})
            maker.keep(f"sql {name}", answer.release.receipt)
            if name in ("groups", "options", "server"):
                card(answer).save(maker.file("cards", f"sql {name}.html"))


FITS: dict[str, tuple[str, ...]] = {
    "linear": ("linear", "visits", "--target", "cost", "--features", "age,days", "--rho", "0.5"),
    "linear server": ("linear", "admissions", "--target", "cost", "--features", "days", "--rho", "0.5"),
    "linear pure": ("linear", "rows", "--target", "cost", "--features", "days", "--epsilon", "1"),
    "logistic": ("logistic", "visits", "--target", "ill", "--features", "age,days", "--labels", "no,yes",
                 "--epsilon", "1", "--delta", "1e-7"),
    "logistic objective": ("logistic", "visits", "--target", "ill", "--features", "age", "--labels", "no,yes",
                           "--epsilon", "1", "--delta", "1e-7", "--solver", "objective"),
    "logistic pure": ("logistic", "rows", "--target", "ill", "--features", "age", "--labels", "no,yes",
                      "--epsilon", "1"),
}  # fmt: skip


def fit_tables(maker: Maker) -> None:
    """Models of registered datasets, with their model files and cards."""
    for name, words in FITS.items():
        model = maker.file("models", f"{name}.json")
        card = ["--card", str(maker.file("cards", f"fit {name}.html"))] if name in ("linear", "logistic") else []
        found = maker.tool("fit", *words, "--why", "golden", "--key", f"fit/{name}", "--out", str(model), *card)
        maker.note("fits", name, {"words": list(words), "charge": found["charge"]})
    words = ("dataset", "suggest", "suggested", "--by", "region", "--range", "cost=0:10000", "--rho", "0.5")
    found = maker.tool(*words, "--why", "golden", "--key", "suggest", "--apply", "--anyway")
    maker.expected["suggest"] = {"words": list(words), "charge": found["charge"], "caps": suggested(found)}


def suggested(found: dict[str, Any]) -> dict[str, Any]:
    """What a suggestion suggests, without what was paid for it."""
    paid = ("charge", "again", "price", "price_epsilon", "left", "population", "head", "dry_run", "applied", "key")
    return {name: value for name, value in found.items() if name not in paid}


def fit_estimators(maker: Maker) -> None:
    """Estimators of ``ts.learn`` that an account paid for, a paid score, a holdout and statistical queries."""
    from tallystick.cards import fit_card

    features, targets, labels = asked.rows()
    with maker.book() as book:
        account = book.open("approx")
        for name, (make, wanted, numbers) in asked.models().items():
            model = make()
            known = labels if wanted == "labels" else targets
            model.fit(features, known, account=account, why="golden", key=f"learn/{name}", delta=DELTA)
            maker.note("learned", name, plain(getattr(model, numbers)))
            maker.keep(f"learn {name}", model.receipt_)
            if name in ("linear", "logistic"):
                fit_card(model, account, dataset="made up").save(maker.file("cards", f"learn {name}.html"))
        model = asked.models()["logistic"][0]()
        model.fit(features, labels, account=account, why="golden", key="learn/logistic", delta=DELTA)
        score = model.score(features, labels, account=account, why="golden", epsilon=0.5, key="learn/score")
        maker.expected["score"] = float(score)
        ask_adaptively(book, features, labels)


def ask_adaptively(book: ts.Ledger, features: Any, labels: Any) -> None:
    """Charges of a reusable holdout and of statistical queries. They take no key, so they cannot be replayed."""
    account = book.open("zcdp replace")
    ts.adaptive.ReusableHoldout(
        lambda y, predicted: y != predicted, features, labels, tau=0.2, beta=0.1, queries=5, answers=2,
        account=account, why="golden",
    )  # fmt: skip
    queries = ts.adaptive.StatisticalQueries(
        list(range(20000)), tau=0.2, beta=0.1, queries=2, account=account, why="golden"
    )
    queries.ask(lambda record: record % 2)


def train(maker: Maker) -> None:
    """Runs of many steps that were begun, and one that torch trained."""
    with maker.book() as book:
        account = book.open("zcdp")
        for name, (payer, taken, options) in asked.RUNS.items():
            with book.open(payer).training(asked.STEP, why="golden", key=f"run/{name}", **options) as run:
                for _ in range(taken):
                    run.step()
            for number, receipt in enumerate(run.receipts):
                maker.keep(f"run {name} {number}", receipt)
        train_network(maker, account)


def train_network(maker: Maker, account: Any) -> None:
    """A small network."""
    import torch

    from tallystick.cards import training_card

    features, _, labels = asked.rows()
    data = torch.utils.data.TensorDataset(torch.tensor(features, dtype=torch.float32), torch.tensor(labels))
    network = torch.nn.Sequential(torch.nn.Linear(2, 2))
    plan = ts.learn.sgd_plan(epsilon=2, delta=1e-6, examples=300, batch=30, epochs=1)
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    paid = {"account": account, "why": "golden", "key": "run/torch"}
    trainer = ts.learn.torch.Trainer(network, loss, optimizer, plan=plan, clip=1.0, **paid)
    training_card(trainer.fit(data)).save(maker.file("cards", "training.html"))
    for number, receipt in enumerate(trainer.run.receipts):
        maker.keep(f"run torch {number}", receipt)
