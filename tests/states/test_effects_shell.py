"""Shell lines carried out on the state leave what bash and git leave (``docs/science.md §2``)."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.states.shell_bed import Bed, Programs

_MOST_UNKNOWN = 0.16
"""Share of files that may be unknown after random programs, which are harder than real ones."""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if not shutil.which("bash") or not shutil.which("git") or not shutil.which("python3"):
        pytest.skip("needs bash, git and python3")
    made = Bed(tmp_path_factory.mktemp("bed") / "root")
    yield made
    made.close()


def hold(bed: Bed, seeds: range) -> None:
    known = unknown = 0
    for seed in seeds:
        rng = random.Random(seed)
        program = Programs(rng).program()
        verdict = bed.compare(program, with_codes=rng.random() < 0.7)
        assert not verdict.wrong, f"seed {seed}: {_shortest(bed, program)}"
        known, unknown = known + verdict.known, unknown + verdict.unknown
    assert unknown / (known + unknown) < _MOST_UNKNOWN


def _shortest(bed: Bed, program: list[str]) -> object:
    """A program without the lines that the fault does not need, and the fault."""
    place = 0
    while place < len(program):
        rest = program[:place] + program[place + 1 :]
        if rest and bed.compare(rest, with_codes=True).wrong:
            program = rest
        else:
            place += 1
    return program, bed.compare(program, with_codes=True).wrong[:3]


def test_random_programs_leave_what_bash_and_git_leave(bed: Bed) -> None:
    """Every file, mode, link and staged file is as derived, or not known; and few are not known."""
    hold(bed, range(100))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_five_thousand_random_programs_do(bed: Bed, part: int) -> None:
    hold(bed, range(1_000 + 1_000 * part, 2_000 + 1_000 * part))


EXACT = {
    "a heredoc without expansion": "cat > f <<'EOF'\n$x `y` \\\nEOF\n",
    "a heredoc with a known variable": 'V=7\ncat > f <<EOF\n$V ${V} \\$V "q" \\\\ \\n\nEOF\n',
    "a substitution": 'echo "$(cat a.txt)" > f',
    "globs": "rm *.txt && cp src/*.py .",
    "braces": "touch {x,y}.txt f{1..3} && rm y.txt",
    "a chain that stops": "false && rm a.txt; cat missing || echo x > f",
    "a branch": "if [ -f a.txt ]; then rm a.txt; else touch f; fi",
    "a loop": 'for f in *.txt; do mv "$f" "${f%.txt}" 2>/dev/null || echo no >> f; done',
    "a subshell": "(cd src && rm b.py); rm nonl",
    "into a folder": "mkdir d && mv a.txt run.sh d && cp -r d e && rm -r d/a.txt",
    "modes": "chmod +x a.txt && chmod 644 run.sh && cp a.txt f",
    "a link": "ln -s a.txt l && cat l > f && rm link",
    "a script in Python": "python3 - <<'EOF'\np = 'a.txt'\ns = open(p).read()\n"
    "open(p, 'w').write(s.replace('two', '2'))\nEOF\n",
    "a script that was written": "echo \"open('f', 'w').write('x')\" > ../s.py && python3 ../s.py",
    "through a file outside": "cp a.txt ../kept && echo x > a.txt && cp ../kept a.txt && rm ../kept",
    "add and restore": "echo x > a.txt && git add a.txt && echo y > a.txt && git checkout -- a.txt",
    "reset of the index": "echo x > a.txt && git add -A && git reset -q && git checkout a.txt",
    "commit and go back": "echo x > a.txt && git commit -qam x && git checkout -q HEAD~1 -- a.txt",
    "an earlier commit": "git checkout -q HEAD~1 -- a.txt && git reset -q --hard HEAD~1",
    "stash and pop": "echo x > a.txt && touch f && git stash -u -q && rm nonl && git stash pop -q",
    "clean": "touch f && mkdir d && touch d/f && git clean -fdq",
    "revert": "git commit -q --allow-empty -m e && git reset -q --hard HEAD~1 && git revert --no-edit HEAD",
    "remove and move": "git rm -q a.txt && git mv nonl d.txt && git rm -q --cached run.sh",
    "a file of a commit": "git show HEAD~1:a.txt > f",
    "found files": "find src -type f -name '*.txt' -exec rm {} \\;",
    "files that hold a text": "grep -rl return src | xargs sed -i 's/return/yield/'",
}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_a_line_is_exact(bed: Bed, name: str) -> None:
    """Nothing is wrong, and, given the exit code, nothing is unknown."""
    verdict = bed.compare([EXACT[name]], with_codes=True)
    assert (verdict.wrong, verdict.unknown) == ([], 0)
    assert bed.compare([EXACT[name]], with_codes=False).wrong == []


def test_the_bed_sees_a_fault(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that could not fail would prove nothing."""
    from handoff.states import effects

    monkeypatch.setattr(effects.Effects, "settle", lambda self, path, state: None)
    assert bed.compare(["echo x > a.txt"], with_codes=True).wrong


def test_the_template_is_never_written(bed: Bed, tmp_path: Path) -> None:
    before = sorted((path, path.stat().st_size) for path in bed._template.rglob("*") if path.is_file())
    bed.compare(["rm -rf *; git add -A; git commit -qm x"], with_codes=True)
    assert before == sorted((path, path.stat().st_size) for path in bed._template.rglob("*") if path.is_file())
