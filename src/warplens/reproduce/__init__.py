"""Figures and tables of the papers, recomputed with the models of this package."""

from . import (  # each registers its recipes
    gpumech,
    hong_kim,
    hong_kim_merge,
    lemeire,
    lemeire_parts,
    lemeire_pipeline,
    lemeire_tables,
)
from .base import RECIPES, Claim, Recipe, Reproduction, find_recipes, recipe_names, write_csv
from .drawing import draw

__all__ = [
    "RECIPES",
    "Claim",
    "Recipe",
    "Reproduction",
    "draw",
    "find_recipes",
    "gpumech",
    "hong_kim",
    "hong_kim_merge",
    "lemeire",
    "lemeire_parts",
    "lemeire_pipeline",
    "lemeire_tables",
    "recipe_names",
    "write_csv",
]
