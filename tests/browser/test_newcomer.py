"""A newcomer's path: a fresh environment with the wheels, the README's commands, then the report and the page."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from wheels import ROOT, Fresh, build_wheels


def readme(language: str) -> str:
    (body,) = re.findall(
        rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    return body


def readme_commands() -> list[list[str]]:
    """Every command that the README tells to type."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```(?:console|sh)\n(.*?)^```$", text, re.M | re.S))
    lines = re.findall(r"^(?:\$ )?warplens (.*)$", blocks, re.M)
    assert len(lines) > 10
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.slow
def test_the_readme_in_a_fresh_environment(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fresh = Fresh(tmp_path, build_wheels(tmp_path))
    shutil.copytree(ROOT / "examples", fresh.folder / "examples")
    shown: dict[str, str] = {}
    # `check` compares with a branch: the examples become a project under git.
    (fresh.folder / "warplens.toml").write_text('[check]\npaths = ["examples/ci/kernels"]\ngpus = ["h200"]\n')
    for git in ("init -q -b main", "add .", "-c user.name=me -c user.email=me@here commit -q -m Begin"):
        fresh.run(["git", *git.split()])
    for arguments in readme_commands():
        if arguments[0] != "serve":
            shown[" ".join(arguments)] = fresh.run(fresh.command(*arguments))
    assert "uncoalesced-stores" in shown["predict transpose --gpu h200"]
    assert "hotspot" in shown["suite run hotspot bfs"]
    assert (fresh.folder / "space.parquet").stat().st_size > 1000
    fresh.run(fresh.command("reproduce", "hong-kim-table2"))
    assert (fresh.folder / "out/reproduce/hong-kim-table2.png").exists()
    fresh.run([str(fresh.python), "-P", "-c", readme("python")])

    # What follows needs a browser; its fixture fails the test where a request leaves the machine.
    page: Page = request.getfixturevalue("page")
    page.goto((fresh.folder / "spmv.html").as_uri())
    page.wait_for_selector("html[data-ready=true]")
    assert "spmv" in page.inner_text("body")
    assert page.locator(".plot .main-svg").count() > 5

    (serve,) = (arguments for arguments in readme_commands() if arguments[0] == "serve")
    command = fresh.command(*serve, "--port", "0", "--json")
    with subprocess.Popen(
        command, cwd=fresh.folder, env=fresh.variables, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            text = ""
            while not text.rstrip().endswith("}"):
                text += server.stdout.readline()
            page.goto(json.loads(text)["url"])
            page.wait_for_selector("html[data-advised]", state="attached", timeout=60_000)
            expect(page.locator("#results")).to_have_attribute("aria-busy", "false", timeout=60_000)
            assert "spmv" in page.content()
        finally:
            server.terminate()
