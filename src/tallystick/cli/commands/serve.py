"""``tallystick serve``: run the service of a team, and operate it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import place as places
from tallystick.cli.output import Answer, Json, Place, Screen, deliver
from tallystick.client.connection import token_in_environment
from tallystick.digits import moment
from tallystick.errors import InvalidInput
from tallystick.ledger.book import place_of

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.service.protocol import Caller

app = typer.Typer(
    help="Run a service: people ask without holding the data.", invoke_without_command=True, rich_markup_mode=None
)

Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="DIR", help="Private folder of the service (default LEDGER.service).")
]
GIGABYTE = 1 << 30


@app.callback()
def serve(
    context: typer.Context,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Make the connection 'files' to this folder.")
    ] = None,
    slots: Annotated[int, typer.Option("--slots", help="Jobs at once (default: 4 for each processor).")] = 0,
    memory: Annotated[float, typer.Option("--memory", metavar="GB", help="Memory for all jobs together.")] = 4,
    spill: Annotated[float, typer.Option("--spill", metavar="GB", help="Disk for what a job has no memory for.")] = 64,
    grace: Annotated[float, typer.Option("--grace", metavar="SECONDS", help="Time for running jobs at a stop.")] = 600,
    cpu: Annotated[int, typer.Option("--cpu", metavar="SECONDS", help="Processor time of a job.")] = 3600,
    port: Annotated[
        int | None, typer.Option("--port", help="Listen for HTTP at this port; 0 picks a free one.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at; others than 127.0.0.1 need TLS.")
    ] = "127.0.0.1",
    certificate: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of --host.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Key of the certificate.")] = None,
    folder: Folder = None,
    ledger: Place = None,
) -> None:
    """Run a service for a ledger with roles, until Ctrl-C or SIGTERM."""
    if context.invoked_subcommand is not None:
        return
    from tallystick.service.settings import Settings
    from tallystick.service.supervisor import Listening, Supervisor, folder_of

    place = place_of(ledger)
    own = folder_of(place.path, folder).absolute()
    for name, value, least in (("slots", slots, 0), ("cpu", cpu, 1), ("memory", memory, 0.1), ("spill", spill, 0.1)):
        if value < least:
            raise InvalidInput(name, value, f"a number of at least {least}")
    settings = Settings(
        ledger=str(place.path.absolute()) if place.path is not None else str(place),
        folder=str(own),
        slots=slots,
        memory=int(memory * GIGABYTE),
        spill=int(spill * GIGABYTE),
        cpu_seconds=cpu,
        grace=grace,
    )
    listening = None if port is None else Listening(port, host, certificate, key)
    supervisor = Supervisor(settings, lambda line: Screen().note([line]), listening)
    if data is not None:
        _connect_files(own, data, place)
    sys.exit(supervisor.run())


def _connect_files(folder: Path, data: Path, place: places.Place) -> None:
    """Make the connection ``files`` before the keeper starts. It is given to every population that is there."""
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.chain import config_directory
    from tallystick.service.connections import Connections, Folder

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    connections = Connections(folder / "connections.json", private=[config_directory()], ledger=place)
    with Ledger(place, create=False) as book:
        names = [account.name for account in book.accounts() if account.parent is None]
    if "files" not in [each.name for each in connections.list()]:
        connections.add(Folder("files", data.absolute()), names)
    for name in names:
        connections.give("files", name)


@contextmanager
def _calling(ledger: str | None, folder: Path | None) -> Iterator[Caller]:
    """Call the keeper of a ledger on this host, with the token in the environment."""
    from tallystick.service.protocol import SOCKET, Caller
    from tallystick.service.supervisor import folder_of

    own = folder_of(place_of(ledger).path, folder)
    with Caller(own / SOCKET, token_given()) as caller:
        yield caller


def token_given() -> str:
    """Return the token in ``TALLYSTICK_TOKEN``, or in the file that ``TALLYSTICK_TOKEN_FILE`` names."""
    token = token_in_environment()
    if token is not None:
        return token
    problem = "this needs a token in TALLYSTICK_TOKEN or TALLYSTICK_TOKEN_FILE. Make one: tallystick token create"
    raise InvalidInput("token", None, "", problem=problem)


def _deliver(command: str, asked: Mapping[str, Any], found: Mapping[str, Any], lines: list[str], as_json: bool) -> None:
    def say(console: Console) -> None:
        for line in lines:
            console.print(line, soft_wrap=True, markup=False)

    deliver(Answer(f"serve.{command}", asked, found, say), as_json=as_json)


@app.command()
def connect(
    name: Annotated[str, typer.Argument(help="What to call the connection.")],
    place: Annotated[str, typer.Argument(help="A folder, or a postgresql:// URL without a password.")],
    population: Annotated[list[str], typer.Option("--population", help="Who may be asked about on it; repeatable.")],
    local: Annotated[bool, typer.Option("--local", help="Allow a server on this host or network.")] = False,
    folder: Folder = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Make a connection: a folder or a server that datasets may be on."""
    fields = {"name": name, "place": place if places.names_server(place) else str(Path(place).absolute())}
    with _calling(ledger, folder) as caller:
        found = caller.ask("connect", **fields, populations=population, local=local)
    _deliver("connect", fields, found, [f"Connected {name} for {', '.join(population)}."], as_json)


@app.command()
def disconnect(
    name: Annotated[str, typer.Argument(help="The connection.")],
    folder: Folder = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """End a connection. Its datasets can no longer be asked."""
    with _calling(ledger, folder) as caller:
        found = caller.ask("disconnect", name=name)
    _deliver("disconnect", {"name": name}, found, [f"Ended connection {name}."], as_json)


@app.command()
def connections(folder: Folder = None, ledger: Place = None, as_json: Json = False) -> None:
    """List connections."""
    with _calling(ledger, folder) as caller:
        found = caller.ask("connections")
    lines = [
        f"{each['name']}  {each.get('path') or each.get('place')}  {', '.join(each['populations']) or 'no population'}"
        for each in found
    ]
    _deliver("connections", {}, {"connections": found}, lines or ["No connections."], as_json)


@app.command()
def jobs(folder: Folder = None, ledger: Place = None, as_json: Json = False) -> None:
    """List the jobs of everyone, for operators. What they ask is not shown."""
    with _calling(ledger, folder) as caller:
        found = caller.ask("jobs", all=True)
    lines = [f"{each['id']}  {each['state']:8}  {each['population']}  {each['principal']}" for each in found]
    _deliver("jobs", {}, {"jobs": found}, lines or ["No jobs."], as_json)


@app.command()
def failures(
    population: Annotated[str, typer.Argument(help="The population.")],
    folder: Folder = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Show failed releases of a population and who may not release there, for its owners."""
    with _calling(ledger, folder) as caller:
        found = caller.ask("failures", population=population)
        suspended = caller.ask("suspended", population=population)
    lines = [f"charge {each['charge']}  {moment(each['at'])}  {each['error']}" for each in found]
    lines += [f"{each['principal']} may not release: charge {each['charge']} failed" for each in suspended]
    facts = {"failures": found, "suspended": suspended}
    _deliver("failures", {"population": population}, facts, lines or ["No failures."], as_json)


@app.command()
def lift(
    population: Annotated[str, typer.Argument(help="The population.")],
    principal: Annotated[str, typer.Argument(help="The id of who may release again.")],
    folder: Folder = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Let a person release again on a population after a failure."""
    with _calling(ledger, folder) as caller:
        found = caller.ask("lift", population=population, principal=principal)
    asked = {"population": population, "principal": principal}
    _deliver("lift", asked, found, [f"{principal} may release on {population} again."], as_json)


@app.command()
def stop(folder: Folder = None, ledger: Place = None, as_json: Json = False) -> None:
    """Stop the service. Running jobs get their time; ask twice to end them now."""
    with _calling(ledger, folder) as caller:
        found = caller.ask("stop")
    _deliver("stop", {}, found, ["The service is stopping."], as_json)
