"""JUnit XML, which most CI systems show as tests: a test case for each kernel and GPU."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from .. import words
from ..check import CheckResult
from .place import place_of

#: Characters that XML 1.0 cannot hold.
_CONTROL = {code: "�" for code in range(32) if code not in (9, 10, 13)}


def junit(result: CheckResult) -> str:
    suite = Element(
        "testsuite",
        name="warplens check",
        tests=str(len(result.verdicts)),
        failures=str(len(result.failing)),
        errors="0",
        skipped=str(result.count("new") + result.count("removed")),
    )
    for verdict in result.verdicts:
        file, line = place_of(verdict, result)
        case = SubElement(
            suite,
            "testcase",
            classname=_text(verdict.identity.path),
            name=_text(f"{verdict.identity} [{verdict.gpu}]"),
            file=_text(file),
            line=str(line),
            time=f"{verdict.snapshot.seconds:.9f}",
        )
        if verdict.fails(result.limit):
            failure = SubElement(case, "failure", type="slower", message=_text(words.headline(verdict)))
            failure.text = _text("\n".join(cause.text for cause in verdict.causes))
        elif verdict.before is None or verdict.after is None:
            SubElement(case, "skipped", message=_text(words.headline(verdict)))
    root = Element("testsuites")
    root.append(suite)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _text(text: str) -> str:
    return text.translate(_CONTROL)
