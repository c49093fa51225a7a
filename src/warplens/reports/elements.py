"""HTML as a tree: a report writes it as text, the interactive page builds it from JSON. Texts never become markup."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

#: [tag, attributes, children], ready for JSON; a text stands for itself.
Node = list[Any] | str


def node(tag: str, attributes: Mapping[str, Any] | None = None, *children: Node | None) -> Node:
    """An element; children that are None are left out."""
    return [tag, dict(attributes or {}), [child for child in children if child is not None]]


def html(tree: Node) -> str:
    """The tree as text."""
    if isinstance(tree, str):
        return escape(tree, quote=True)
    tag, attributes, children = tree
    told = "".join(f' {name}="{escape(str(value), quote=True)}"' for name, value in attributes.items())
    return f"<{tag}{told}>{''.join(map(html, children))}</{tag}>"
