"""Lines whose effects are easy to take for something else: exact, or said to be unknown (``docs/science.md §2``).

Each was once derived wrongly. All are run with real bash and git, in shells of their own and in one that lives on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.states.shell_bed import Bed

FOLDERS = [
    ["cd src/missing && echo x > f", "echo y > g"],
    ["false && cd src", "echo y > g"],
    ["cd src &", "wait", "echo y > g"],
    ["if true; then cd src; fi", "echo y > g"],
    ["cd src && false || cd deep", "echo y > g"],
    ["pushd src", "echo y > g", "popd", "echo y > h"],
    ["for d in src deep; do cd $d; done", "echo y > g"],
    ["f() { cd src; }; f", "echo y > g"],
    ["cd src; cd -", "echo y > g"],
    ["echo 'cd src' > s.sh; . ./s.sh", "echo y > g"],
    ["export CDPATH=src", "cd deep", "echo y > g"],
    ["CDPATH=src cd deep", "echo y > g"],
    ["env -C src rm b.py"],
]
"""Where the next line begins."""
MODES = [
    ["set -e; echo $(false; echo hi) > f"],
    ["set -u; echo $nope > f; echo y > g"],
    ["set -e", "false", "echo y > g"],
    ["set -C", "echo x > a.txt"],
    ["set -f", "rm *.txt"],
    ["shopt -s nullglob", "echo *.zz > f"],
    ["shopt -s expand_aliases", "alias rm=true", "rm a.txt"],
    ["cat() { echo hi; }", "cat a.txt > f"],
    ["function cp { echo no; }", "cp a.txt b.txt"],
    ["trap 'echo bye > t' EXIT; echo x > f"],
    ["trap 'echo e > t' ERR; false"],
    ["bash -ec 'false; rm a.txt'"],
    ["X=1; bash -c 'echo $X > f'"],
    ["IFS=,; X=a,b; echo $X > f"],
    ["exec true; echo x > f"],
    ["kill -9 $$; echo x > f"],
    ["ulimit -f 0; echo x > f"],
]
"""What changes how the rest is read."""
WORDS = [
    ['echo "`echo \\"hi\\"`" > f'],
    ["echo .* > f"],
    ["echo ${X:?no} > f; echo y > g"],
    ["i=0; echo $((i++)) > f; echo $i > g"],
    ["X=1; echo ${X:=2} ${Y:=3} > f; echo $Y > g"],
    ["echo x {fd}>f"],
    ["{ echo hi > /dev/stdout; } > f"],
    ["cp a.txt /dev/stdout > f"],
    ["local X=1; echo $X > f"],
    ["declare -i X=1+1; echo $X > f"],
    ["f() { local X=2; echo $X; }; X=1; f > f; echo $X >> f"],
    ["readonly X=1; X=2; echo $X > f"],
    ["X=a; printf -v X hi; echo $X > f"],
]
"""What words and variables come to."""
SCRIPTS = [
    ["echo 'rm a.txt' > s.sh; source s.sh"],
    ["echo 'rm a.txt' > s.sh; bash s.sh"],
    ["printf '#!/bin/sh\\nrm a.txt\\n' > s.sh; chmod +x s.sh; ./s.sh"],
    ["printf 'rm a.txt\\n' > s.sh; ./s.sh"],
    ["printf 'for ((i=0;i<1;i++)); do rm a.txt; done\\n' > s.sh; bash s.sh"],
    ["bash -s <<E\nrm a.txt\nE\n"],
    ["python3 <<E\nopen('n','w').write('$HOME')\nE\n"],
    ["echo a.txt | xargs -I{} sh -c 'cat {} > {}.x'"],
    ["sudo_not_here rm a.txt"],
]
"""Scripts and shells within shells."""
PROGRAMS = [
    ["sed -n 'w out' a.txt"],
    ["sed 's/one/1/w out' a.txt"],
    ["sed '1e touch zz' a.txt > f"],
    ["sed -i '' 's/one/1/' a.txt"],
    ["sed -i '' 's/one/1/' a.txt 2> /dev/null"],
    ["perl -i.bak -pe 's/one/1/' a.txt"],
    ["perl -pi -e 's/x/y/' link"],
    ["perl -e 'unlink \"a.txt\"'"],
    ["sort -u a.txt -o a.txt"],
    ["uniq a.txt f"],
    ["awk '{print > \"f\"}' a.txt"],
    ["awk '{print $1 > $1\".o\"}' a.txt"],
    ["awk 'BEGIN{system(\"rm a.txt\")}'"],
    ["split -l 1 a.txt"],
    ["mktemp ./tmp.XXXX"],
    ["gzip a.txt"],
    ["shred -u a.txt"],
    ["flock l rm a.txt"],
    ["install -m 755 a.txt b.sh"],
    ["cp -b a.txt nonl"],
    ["cp -t src a.txt nonl"],
    ["mv --backup=numbered a.txt nonl"],
    ["python3 -c \"import os; os.chmod('a.txt', 0o755)\""],
    ["python3 -c \"import os; os.chdir('src'); open('n','w').write('x')\""],
    ["python3 -c \"from pathlib import Path; Path('a.txt').rename('b.txt')\""],
]
"""Programs that write files in ways of their own."""
LINKS = [
    ["ln -s $PWD/a.txt ../l; echo two > ../l", "cat a.txt > f"],
    ["ln -s w/src ../l; echo two > ../l/n", "rm ../l; echo x > ../l"],
    ["ln a.txt ../h; echo two > ../h", "cat a.txt"],
    ["ln a.txt h; echo two > h", "cat a.txt > g; echo three > a.txt"],
    ["cd dlink", "ln -sn src src || cp -f ../bin.dat n"],
    ["cp -al src s2; echo two > s2/x.txt"],
    ["cp -s $PWD/a.txt ../l; echo two > ../l"],
]
"""Several names of one file."""
GIT = [
    ["git worktree add wt; echo x > wt/a.txt"],
    ["git worktree add wt; cd wt; git rm -q a.txt"],
    ["mkdir sub; (cd sub; git init -q; echo x > i); git clean -fd"],
    ["git config core.autocrlf true; rm a.txt; git checkout a.txt"],
    ["git config core.fileMode false; chmod +x a.txt; git add a.txt"],
    ["echo '* text eol=crlf' > .gitattributes; rm a.txt; git checkout a.txt"],
    ["echo '*.txt text' > .gitattributes; echo x >> crlf.txt; git add crlf.txt"],
    ["echo '*.txt ident' > .gitattributes; printf '$Id$\\n' > i.txt; git add i.txt; rm i.txt; git checkout i.txt"],
    ["git update-index --assume-unchanged a.txt; echo x > a.txt; git add a.txt; git stash"],
    ["git update-index --chmod=+x a.txt"],
    ["git symbolic-ref HEAD refs/heads/zz; git reset -q --hard"],
    ["rm src/x.txt a.txt; git checkout -- ':!src'"],
    ["export GIT_WORK_TREE=src; git checkout ."],
    ["git format-patch -1"],
    ["git diff --output=f"],
    ["git bundle create b HEAD"],
]
"""What git does otherwise than files alone tell."""
EVERY = {"; ".join(program)[:60]: program for program in (*FOLDERS, *MODES, *WORDS, *SCRIPTS, *PROGRAMS, *LINKS, *GIT)}


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if not shutil.which("bash") or not shutil.which("git") or not shutil.which("python3"):
        pytest.skip("needs bash, git and python3")
    made = Bed(tmp_path_factory.mktemp("traps") / "root")
    yield made
    made.close()


@pytest.mark.parametrize("name", sorted(EVERY))
def test_nothing_is_said_that_is_not_so(bed: Bed, name: str) -> None:
    """Every file is as derived, or not known, or said to be in doubt."""
    program = EVERY[name]
    for verdict in (bed.compare(program, with_codes=True), bed.compare_kept(program, with_codes=False)):
        assert verdict.is_suspected or not verdict.wrong


KEPT = {
    "a folder": ["cd src", "echo y > g", "cd deep && rm 'c d.txt'", "cd .. ; rm b.py"],
    "a folder that is not there": ["cd nowhere", "echo y > g"],
    "there and back": ["cd src && cd -", "echo y > g"],
    "a loop that counts": ["i=0; while [ $i -lt 3 ]; do echo $((i * 2)) >> f; i=$((i+1)); done"],
    "jobs that were waited for": ["(sleep 0.05; echo x > f) & wait", "cat f > g 2>/dev/null; echo y > h"],
    "a script": ["echo 'rm a.txt; exit 3' > s.sh", "bash s.sh; echo $? > f", "bash ./s.sh || rm nonl"],
    "a script with its own variables": ["X=1; echo 'X=2; cd src' > s.sh; bash s.sh; echo $X > f"],
    "a script that is sourced": ["echo 'X=2; cd src' > s.sh; . ./s.sh; echo $X > f"],
}


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_a_shell_keeps_is_exact(bed: Bed, name: str) -> None:
    verdict = bed.compare_kept(KEPT[name], with_codes=True)
    assert (verdict.wrong, verdict.is_suspected) == ([], False)
    if name not in ("a script", "jobs that were waited for"):  # $? of a failure is one of many numbers
        assert verdict.unknown == 0
