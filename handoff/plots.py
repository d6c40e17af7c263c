"""Plots as SVG text: small, without scripts, readable in both colour schemes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from xml.sax import saxutils

import msgspec

PALETTE = {
    "A": "#8d99ae",
    "A+opening": "#c9a227",
    "B": "#457b9d",
    "E": "#d1495b",
    "expert": "#2a9d8f",
    "resampled": "#7b6d8d",
    "oracle": "#5c677d",
    "replay": "#3d405b",
}
_OTHER = "#999999"


def escape(text: str, quotes: Mapping[str, str] | None = None) -> str:
    """Text of unknown origin as XML can hold it: no markup and no control characters."""
    return saxutils.escape("".join(c if c.isprintable() else "·" for c in text), dict(quotes or {}))


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One value with its interval; all in the unit of the axis."""

    group: str
    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


def interval_chart(title: str, bars: Sequence[Bar], *, unit: str = "", width: int = 560) -> str:
    """Groups of horizontal bars with 95 % intervals. A missing value leaves its place empty, and says so."""
    top = max([b.high if b.high is not None else b.value or 0.0 for b in bars] or [1.0]) or 1.0
    left, right, row, gap = 190, 70, 18, 12
    scale = (width - left - right) / top
    parts: list[str] = []
    y = 34
    previous = None
    for bar in bars:
        if bar.group != previous:
            y += gap
            parts.append(f'<text x="8" y="{y + 13}" font-weight="600">{escape(bar.group)}</text>')
            previous = bar.group
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(bar.name)}</text>')
        if bar.value is None:
            parts.append(f'<text x="{left}" y="{y + 13}" opacity=".6">no value</text>')
        else:
            colour = PALETTE.get(bar.name, _OTHER)
            length = max(1.0, bar.value * scale)
            parts.append(
                f'<rect x="{left}" y="{y + 3}" width="{length:.1f}" height="{row - 6}" rx="2" fill="{colour}"/>'
            )
            if bar.low is not None and bar.high is not None:
                a, b = left + bar.low * scale, left + bar.high * scale
                mid = y + row / 2
                parts.append(
                    f'<path d="M{a:.1f} {mid}H{b:.1f}M{a:.1f} {mid - 4}v8M{b:.1f} {mid - 4}v8" '
                    'stroke="currentColor" opacity=".75"/>'
                )
            label = f"{bar.value:,.2f}" if top < 20 else f"{bar.value:,.0f}"
            end = left + (bar.high if bar.high is not None else bar.value) * scale
            parts.append(f'<text x="{end + 6:.1f}" y="{y + 13}">{label}</text>')
        y += row
    return _drawing(f"{title} ({unit})" if unit else title, "".join(parts), width, y + 10)


def _drawing(heading: str, inner: str, width: int, height: int) -> str:
    """The SVG around what is drawn."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{escape(heading, {chr(34): "&quot;"})}" font-family="system-ui,sans-serif" font-size="12" '
        f'fill="currentColor">'
        f'<text x="8" y="20" font-size="14" font-weight="600">{escape(heading)}</text>{inner}</svg>'
    )


SHARES = ("#2a9d8f", "#c9a227", "#d1495b", "#8d99ae")
"""Colours of the parts of a bar, in order."""


def share_chart(
    title: str, bars: Sequence[tuple[str, Sequence[int]]], parts: Sequence[str], *, width: int = 640
) -> str:
    """Horizontal bars made of parts, each bar as long as its sum. (name, size of each part); names of the parts."""
    top = max([sum(sizes) for _, sizes in bars] or [1]) or 1
    left, right, row = 150, 60, 20
    scale = (width - left - right) / top
    drawn: list[str] = []
    x = left
    for name, colour in zip(parts, SHARES, strict=False):
        drawn.append(f'<rect x="{x}" y="34" width="10" height="10" rx="2" fill="{colour}"/>')
        drawn.append(f'<text x="{x + 14}" y="43">{escape(name)}</text>')
        x += 30 + 7 * len(name)
    y = 56
    for name, sizes in bars:
        drawn.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(name)}</text>')
        begin = float(left)
        for size, colour in zip(sizes, SHARES, strict=False):
            if size:
                drawn.append(
                    f'<rect x="{begin:.1f}" y="{y + 3}" width="{max(1.0, size * scale):.1f}" height="{row - 7}" '
                    f'fill="{colour}"/>'
                )
                begin += size * scale
        drawn.append(f'<text x="{begin + 6:.1f}" y="{y + 13}">{sum(sizes):,}</text>')
        y += row
    return _drawing(title, "".join(drawn), width, y + 10)


class Place(Protocol):
    """A value at a place, with its interval."""

    @property
    def point_id(self) -> str:
        """Name."""
        ...

    @property
    def h(self) -> int:
        """Where it is on the axis."""
        ...

    @property
    def mean(self) -> float | None:
        """The value."""
        ...

    @property
    def low(self) -> float | None:
        """Of its interval."""
        ...

    @property
    def high(self) -> float | None:
        """Of its interval."""
        ...


def cost_curve(title: str, places: Sequence[Place], marked: str | None, *, width: int = 640) -> str:
    """Values along the steps of a run, each with its 95 % interval; the one named ``marked`` in red."""
    known = [place for place in places if place.mean is not None]
    ends = [v for p in known for v in (p.mean, p.low, p.high) if v is not None]
    low, high = (min([0.0, *ends]), max([0.0, *ends])) if ends else (0.0, 1.0)
    span = high - low or 1.0
    last = max([place.h for place in places] or [1])
    left, right, top, height = 56, 16, 40, 220
    across = (width - left - right) / max(1, last)

    def x(h: int) -> float:
        return left + h * across

    def y(value: float) -> float:
        return top + height * (1 - (value - low) / span)

    drawn = [f'<path d="M{left} {y(0):.1f}H{width - right}" stroke="currentColor" opacity=".35"/>']
    for value in (low, (low + high) / 2, high):
        drawn.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.2f}</text>')
    for h in sorted({1, last // 2, last} - {0}):
        anchor = "end" if h == last else "middle"
        drawn.append(f'<text x="{x(h):.1f}" y="{top + height + 18}" text-anchor="{anchor}">step {h}</text>')
    line = " ".join(f"{x(p.h):.1f},{y(p.mean):.1f}" for p in known if p.mean is not None)
    drawn.append(f'<polyline points="{line}" fill="none" stroke="currentColor" opacity=".3"/>')
    for place in known:
        assert place.mean is not None
        colour = "#d1495b" if place.point_id == marked else "#457b9d"
        if place.low is not None and place.high is not None:
            drawn.append(
                f'<path d="M{x(place.h):.1f} {y(place.low):.1f}V{y(place.high):.1f}" stroke="{colour}" opacity=".45"/>'
            )
        drawn.append(f'<circle cx="{x(place.h):.1f}" cy="{y(place.mean):.1f}" r="3.5" fill="{colour}"/>')
    return _drawing(title, "".join(drawn), width, top + height + 30)


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """One offer: what it costs and what it gives."""

    name: str
    x: float
    """Cost; less is better."""
    y: float
    """A share; more is better."""
    is_on_front: bool


def front_chart(
    title: str,
    spots: Sequence[Spot],
    marks: Sequence[tuple[str, float, float | None]] = (),
    *,
    unit: str = "",
    width: int = 640,
) -> str:
    """Cost against quality, with the Pareto front as a line. ``marks``: (name, cost, quality) to compare with."""
    height, left, right, top, bottom = 360, 60, 150, 44, 44
    every = [(spot.x, spot.y) for spot in spots] + [(x, y) for _, x, y in marks if y is not None]
    most = max((x for x, _ in every), default=1.0) * 1.05 or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        return left + x / most * (width - left - right), top + (1 - y) * (height - top - bottom)

    drawn = [
        f'<path d="M{left} {top}V{height - bottom}H{width - right}" fill="none" stroke="currentColor" opacity=".4"/>'
    ]
    for tenth in (0.0, 0.5, 1.0):
        _, y = at(0, tenth)
        drawn.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth:.1f}</text>')
    for share in (0.0, 0.5, 1.0):
        x, _ = at(most * share, 0)
        drawn.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{_short(most * share)}</text>')
    front = sorted({at(spot.x, spot.y) for spot in spots if spot.is_on_front})
    if len(front) > 1:
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in front)
        drawn.append(f'<path d="M{line}" fill="none" stroke="{PALETTE["E"]}" stroke-width="1.5"/>')
    labels: list[tuple[float, float, str, str]] = []
    for name, cost, quality in marks:
        if quality is not None:
            a, b = at(cost, quality)
            drawn.append(f'<path d="M{a - 5:.1f} {b - 5:.1f}l10 10m0 -10l-10 10" stroke="currentColor"/>')
            labels.append((a, b, name, ' font-style="italic"'))
    for spot in sorted(spots, key=lambda s: (s.x, s.y, s.name)):
        a, b = at(spot.x, spot.y)
        colour = PALETTE["E"] if spot.is_on_front else _OTHER
        drawn.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4.5" fill="{colour}"/>')
        labels.append((a, b, spot.name, ""))
    drawn += _labels(labels)
    return _drawing(f"{title} ({unit})" if unit else title, "".join(drawn), width, height)


def _short(value: float) -> str:
    """A figure on an axis."""
    return f"{value / 1000:,.0f}k" if value >= 10_000 else f"{value:,.3g}"


def _labels(wanted: Sequence[tuple[float, float, str, str]]) -> list[str]:
    """Names beside their marks (x, y, name, style), moved up or down where one would cover another."""
    taken: list[tuple[float, float, float]] = []
    drawn = []
    for a, b, name, style in wanted:
        length = 6.6 * len(name)
        moves = [sign * 13 * step for step in range(len(wanted) + 1) for sign in (1, -1)]
        y = next(
            b + move
            for move in moves
            if not any(abs(b + move - high) < 12 and a < end and start < a + length for start, end, high in taken)
        )
        taken.append((a, a + length, y))
        if y != b:
            drawn.append(f'<path d="M{a:.1f} {b:.1f}L{a + 8:.1f} {y:.1f}" stroke="currentColor" opacity=".4"/>')
        drawn.append(f'<text x="{a + 9:.1f}" y="{y + 4:.1f}"{style}>{escape(name)}</text>')
    return drawn
