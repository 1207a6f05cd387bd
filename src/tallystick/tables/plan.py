"""The plan of a question. A plan and its question make each other, so both are defined in ``table``."""

from tallystick.tables.table import Plan as Plan
from tallystick.tables.table import make_plan as make_plan
