"""Pictures of results, and pages of them.

The module can be called: `warplens.report("kernelslist.g", "out.html", gpus=["h200"])`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .build import Report


class _CallableModule(ModuleType):
    """`warplens.report` is the name of this package and, for users, of a function."""

    def __call__(self, *arguments: Any, **options: Any) -> "Report":
        made: Report = import_module("warplens.report.build").make_report(*arguments, **options)
        return made


sys.modules[__name__].__class__ = _CallableModule
