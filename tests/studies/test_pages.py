"""The pages of the studies: whatever names say, they stay whole and ask for nothing."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from handoff.lake import SCHEMAS
from handoff.plots import Spot, front_chart
from handoff.report.studies import recommendations, render_debt, render_tax, tax_plots

HOSTILE = '<script>alert(1)</script>"\x1b[31m & </svg>'


def blank(table: str, **more: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SCHEMAS[table].names), **more}


def tax_row(**more: Any) -> dict[str, Any]:
    row = blank(
        "handoff_tax", low="A", high=HOSTILE, unit="tokens", direction="escalation", timing="all", interface="trace"
    )
    row |= {"quality": 0.5, "quality_lc": 0.2, "quality_hc": 0.9, "cost": 5e4, "cost_lc": 2e4, "cost_hc": 9e4}
    row |= {"is_on_front": True, "is_recommended": False, "not_separated": [], "note": "", "n_runs": 3, "n_tasks": 3}
    return row | {"unmatched": 0, "omitted": 0, **more}


def test_hostile_names_do_not_break_out_of_pages_and_drawings() -> None:
    rows = [tax_row(), tax_row(interface=HOSTILE, is_recommended=True, not_separated=[HOSTILE], note=HOSTILE)]
    debt = blank("handoff_debt", arm=HOSTILE, view=HOSTILE, label=HOSTILE, metric="prompt_tokens", note=HOSTILE)
    debt |= {"ratio_of_medians": 2.0, "n_points": 1, "n_tasks": 1, "unmatched": 1}
    for page in (render_tax(HOSTILE, rows, 2), render_debt(HOSTILE, [debt], 2)):
        assert "<script" not in page and "\x1b" not in page
        for drawing in page.split("<svg")[1:]:
            ElementTree.fromstring("<svg" + drawing.split("</svg>")[0] + "</svg>")


def test_an_empty_study_has_a_page() -> None:
    assert "Handoff tax" in render_tax("tax", [], 0) and "Handoff debt" in render_debt("debt", [], 0)
    assert tax_plots([]) == [] and recommendations([]) == []
    assert tax_plots([tax_row(cost=None)]) == [], "a direction without costs has no front"


def test_names_in_a_front_chart_do_not_cover_each_other() -> None:
    spots = [Spot(name=f"interface {n}", x=100 + n % 2, y=0.5, is_on_front=n == 0) for n in range(9)]
    drawing = ElementTree.fromstring(front_chart("front", spots, [("A alone", 100.0, 0.5), ("B alone", 90.0, None)]))
    places = [
        (float(text.attrib["x"]), float(text.attrib["y"]))
        for text in drawing.iter("{http://www.w3.org/2000/svg}text")
        if (text.text or "").startswith(("interface", "A alone"))
    ]
    assert len(places) == 10 and len({round(y) for _, y in places}) == 10


def test_what_to_take_is_said_with_its_doubt() -> None:
    sure = [tax_row(), tax_row(interface="diff", is_recommended=True)]
    assert recommendations(sure) == [("escalation", "diff; clearly the best")]
    unsure = [tax_row(is_recommended=True, not_separated=["drop"])]
    assert recommendations(unsure) == [("escalation", "trace; at 95 % not separated from drop")]
    none = [tax_row(note="none recommended: every interface on the front costs more than either model alone; more")]
    assert recommendations(none) == [
        ("escalation", "none recommended: every interface on the front costs more than either model alone")
    ]
