"""The rules of advice, one file each: a new rule is a new file with a `RULE`."""

from importlib import import_module
from pkgutil import iter_modules

from ..rule import Rule

RULES: dict[str, Rule] = {
    rule.name: rule for rule in (import_module(f"{__name__}.{module.name}").RULE for module in iter_modules(__path__))
}
