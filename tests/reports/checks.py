"""What holds of every view."""

from __future__ import annotations

import json


def check_view(view, tmp_path):
    """JSON without NaN, a table of the right shape, a figure for plotly, a picture and a notebook's bundle."""
    document = json.loads(json.dumps(view.to_dict(), allow_nan=False))
    assert document["view"] == view.name and document["summary"]
    figure = json.loads(json.dumps(view.figure(), allow_nan=False))
    assert figure["data"] and figure["layout"]["height"] > 100
    table = view.table()
    assert table.rows and all(len(row) == len(table.columns) for row in table.rows)
    view.save(tmp_path / "view.svg")
    assert (tmp_path / "view.svg").read_text().startswith("<?xml")
    assert view._repr_mimebundle_()["text/html"].startswith("<img alt=")
    return figure
