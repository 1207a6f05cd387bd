"""A card's facts poured into its HTML template."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tallystick.cards.pictures import icons_svg, tradeoff_svg
from tallystick.drawing import css_variables
from tallystick.printing import given, percent_up, plain, up

if TYPE_CHECKING:
    from jinja2 import Template


def page(facts: Mapping[str, Any], embedded: str) -> str:
    """One self-contained page. Every value is escaped by the template; only our own pictures and JSON are not."""
    from markupsafe import Markup

    limit, curve = facts["words"]["limit"], facts["promise"]["tradeoff"]
    without, within = (min(100, max(0, round(100 * limit[name]))) for name in ("false_alarm", "hit"))
    return _template().render(
        look=Markup(css_variables()),
        card=facts,
        limit=limit,
        table=facts["words"]["table"],
        curve=Markup(tradeoff_svg(curve["alpha"], curve["limit"], curve["table"])),
        without=Markup(icons_svg(without, label=f"{without} of 100 people marked")),
        within=Markup(icons_svg(within, label=f"{within} of 100 people marked")),
        counts={"without": without, "within": within},
        embedded=Markup(embedded),
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    room = Environment(
        loader=PackageLoader("tallystick.cards", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    room.filters |= {"up": partial(up, digits=4), "percent_up": percent_up, "number": plain, "given": given}
    return room.get_template("card.html.j2")
