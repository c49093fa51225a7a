"""Figures and tables of the papers, recomputed with the models of this package."""

from . import (  # each registers its recipes
    gpumech,
    gpumech_errors,
    gpumech_stacks,
    hong_kim,
    hong_kim_merge,
    lemeire,
    lemeire_parts,
    lemeire_pipeline,
    lemeire_tables,
    mdm,
    mdm_errors,
    speed,
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
    "gpumech_errors",
    "gpumech_stacks",
    "hong_kim",
    "hong_kim_merge",
    "lemeire",
    "lemeire_parts",
    "lemeire_pipeline",
    "lemeire_tables",
    "mdm",
    "mdm_errors",
    "recipe_names",
    "speed",
    "write_csv",
]
