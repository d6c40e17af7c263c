"""Random shell programs over a small repository: run for real, and carried out on the state, to be compared.

The programs are made of what agents write, with names and texts that are hard on purpose. Whatever bash and git do with
them is right by definition.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from handoff.actions.paths import Context
from handoff.git.importer import FileState
from handoff.git.objects import EXECUTABLE, FILE, SYMLINK, object_id, text_path
from handoff.git.repositories import Repository
from handoff.states.effects import Effects
from handoff.states.shell import run_line
from handoff.states.versions import UNSURE
from handoff.states.working import WorkingFiles
from handoff.trajectory import Observation

FILES = {
    "a.txt": b"one\ntwo\nthree\n",
    "src/b.py": b"def f(x):\n    return x + 1\n",
    "src/x.txt": b"x\n",
    "src/deep/c d.txt": b"alpha\nbeta\n",
    "-dash": b"dash\n",
    "\u00fc.txt": "gr\u00fc\u00df\n".encode(),
    "q'uote.txt": b"quote\n",
    "bin.dat": b"\xff\xfe\x00\x01\nx\n",
    "crlf.txt": b"x\r\ny\r\n",
    "nonl": b"no newline",
    "run.sh": b"echo hi\n",
    "empty": b"",
    ".gitignore": b"*.log\nbuild/\n",
}
LINKS = {"link": "a.txt", "dlink": "src"}
OTHERS = (
    *("new.txt", "n ew.txt", "src/new.py", "src/deep/n.txt", "d2/f.txt", "d2", "build/o.txt", "z.log", "link", "dlink"),
    *("../out.txt", "dlink/x.txt", "src", "src/deep", "missing.txt", "a.txt.bak", "[x].txt"),
)
GLOBS = ("*.txt", "src/*", "src/*.py", "*.zzz", "s?c/*", "src/deep/*", "*", "[ab]*", "{a,nonl}*", "{new,a}.txt")
TEXTS = ("hello", "a b", "x\\ty", "", "it's", "$HOME?", "one", "\u00e9", "%d", "-n", "a\\nb")
BODY = ("line\n", "  two\n", "$V\n", "it's \\`q\\` \\$y\n", "\n", "\\\n", "\t\\\\z\n", "a\\\n", '\u00e9"\n')
FORMATS = ("%s\\n", "a\\tb\\n", "%s-%d\\n", "x%%\\n", "\\101\\n", "%b", "no")
SCRIPTS = ("s/o/0/", "s/one/1/g", "2d", "/two/d", "$d", "1i\\top", "$a end", "s/x\\b/Y/")
BODIES = ('echo x >> "$f"', 'cp "$f" "$f.bak"', "rm -f $f", 'touch "${f}.c"', 'mv "$f" d2/')
FOUND = ("-delete", "-exec sed -i s/a/A/ {} +", "-exec rm {} \\;", "-exec chmod +x {} +")
PATCH = """\
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
"""
NEW_FILE = """\
diff --git a/new.txt b/new.txt
new file mode 100755
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hey
"""
PYTHON = (
    "p = {A}\ns = open(p).read()\ns = s.replace('o', '0', 1)\nopen(p, 'w').write(s)\n",
    "import re\nfrom pathlib import Path\np = Path({A})\nt = p.read_text()\nassert 'o' in t, 'none'\n"
    "t = re.sub(r'(\\w)o', r'\\1_', t)\np.write_text(t)\nprint('ok', len(t))\n",
    "with open({A}) as f:\n    lines = f.readlines()\nout = []\nfor i, line in enumerate(lines):\n    if i == 1:\n"
    "        out.append('added\\n')\n    elif line.startswith('t'):\n        continue\n"
    "    out.append(line.rstrip() + '\\n')\nwith open({B}, 'a') as f:\n    f.writelines(out)\n",
    "import os\nd = open({A}, 'rb').read()\nopen({B}, 'wb').write(d[:3] + b'!' + d[3:])\n"
    "if os.path.exists('missing.txt'):\n    os.remove('missing.txt')\nelse:\n    os.remove({A})\n",
    "def f(a, b='z'):\n    return a + b\nwith open({A}, 'r+') as g:\n    x = g.read()\n    g.seek(0)\n"
    "    g.write(f('Q', x[:2]) + f'{len(x)}')\n    g.truncate()\n",
    "import json\ndata = {'a': [1, 2, None, True], 'b': {'c': '\u00e9'}}\ndata['b']['d'] = 3\n"
    "with open({B}, 'w') as f:\n    json.dump(data, f, indent=2)\n    f.write('\\n')\n"
    "s = open({B}).read().split('\\n')\ns[0:1] = ['{ ']\nopen({B}, 'w').write('\\n'.join(s))\n",
)


class Programs:
    """Makes programs from a source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def program(self) -> list[str]:
        """One to four lines."""
        return [self._line() for _ in range(self._rng.randint(1, 4))]

    def _line(self) -> str:
        parts: list[str] = []
        for _ in range(self._one(1, 1, 1, 2, 2, 3)):
            command = self._git() if self._rng.random() < 0.35 else self._command()
            parts += [command, "\n" if command.endswith("\n") else self._one(" && ", " && ", "; ", "\n", " || ")]
        return "".join(parts[:-1])

    def _one(self, *choices: object) -> object:
        return self._rng.choice(choices)

    def _name(self, other: float = 0.5) -> str:
        return self._rng.choice(OTHERS) if self._rng.random() < other else self._rng.choice(sorted(FILES))

    def _word(self, name: str) -> str:
        """A name as it may be typed."""
        if name.startswith("-") and self._rng.random() < 0.8:
            name = f"./{name}"
        how = self._rng.random()
        if how < 0.75 and not set(name) & set('\\$`"!') and how > 0.5:
            return f'"{name}"'
        if how > 0.85:
            return "".join(c if c.isalnum() or c in "./_-" or ord(c) > 127 else f"\\{c}" for c in name)
        return shlex.quote(name)

    def _any(self) -> str:
        return self._word(self._name())

    def _old(self) -> str:
        return self._word(self._name(0.15))

    def _glob(self) -> str:
        return self._rng.choice(GLOBS)

    def _simple(self) -> str:
        while (command := self._command()).endswith("\n"):
            pass
        return command

    def _command(self) -> str:
        made = self._rng.choice(
            (
                *(self._write, self._write, self._write, self._move, self._move, self._copy, self._copy, self._remove),
                *(self._remove, self._make, self._mode, self._show, self._show, self._show, self._sed, self._sed),
                *(self._many, self._many, self._flow, self._flow, self._python),
            )
        )
        return made()

    def _heredoc(self) -> str:
        end = self._one("EOF", "'EOF'", '"E O"', "-EOF", "-'EOF'")
        tag = str(end).lstrip("-").strip("'\"")
        head = str(self._one("cat > {}", "cat >> {}", "tee {} > /dev/null", "tee -a {}")).format(self._any())
        body = "".join(self._rng.choice(BODY) for _ in range(self._rng.randint(0, 4)))
        return f"{self._one('', 'V=7; ')}{head} <<{end}\n{body}{tag}\n"

    def _write(self) -> str:
        text, to = self._word(self._rng.choice(TEXTS)), self._any()
        return str(
            self._one(
                self._heredoc(),
                f"echo {self._one('', '-n ', '-e ', '-ne ')}{text} {self._one('>', '>>', '>|')} {to}",
                f"printf {shlex.quote(self._rng.choice(FORMATS))} {text} {self._one('1', '2')} > {to}",
                f"{self._one('', ': ', 'true ')}{self._one('>', '>>')} {to}",
                f"truncate -s {self._one('0', '3', '20')} {to}",
                f"touch {self._one('', '-c ')}{to}",
            )
        )

    def _move(self) -> str:
        sources = " ".join(self._old() for _ in range(self._one(1, 1, 2)))
        return f"mv {self._one('', '-f ', '-n ')}{sources} {self._any()}{self._one('', '', '', '/')}"

    def _copy(self) -> str:
        sources = " ".join(str(self._one(self._old(), self._glob())) for _ in range(self._one(1, 1, 2)))
        how = self._one("", "-r ", "-f ", "-a ", "-p ", "-n ", "-R ")
        return f"cp {how}{sources} {self._any()}{self._one('', '', '', '/')}"

    def _remove(self) -> str:
        what = self._one(self._old(), self._old(), self._any(), self._glob())
        return f"{self._one('rm', 'rm -f', 'rm -r', 'rm -rf', 'rmdir')} {what}"

    def _make(self) -> str:
        target = self._word(str(self._one("a.txt", "src", "../a.txt", "nowhere")))
        link = f"ln -s{self._one('', 'f', 'n', 'fn')} {target} {self._any()}"
        return str(self._one(f"mkdir {self._one('', '-p ')}{self._any()}", link))

    def _mode(self) -> str:
        mode = self._one("+x", "-x", "755", "644", "u+x", "go-x", "a=rw", "u=rwx,go=r", "0700", "g+x", "+X")
        return f"chmod {self._one('', '-R ')}{mode} {self._one(self._old(), self._glob())}"

    def _show(self) -> str:
        shown = self._one("cat", "head -n 2", "tail -n 1", "head -c 5", "tail -n +2", "tail -c 4", "head -1")
        return str(
            self._one(
                f"{shown} {self._old()} {self._one('>', '>>')} {self._any()}",
                f"cat {self._old()} {self._glob()} > {self._any()}",
                f"cat {self._old()} | {self._one('tee', 'head -n 1 >', 'cat - >>', 'tr -d t >')} {self._any()}",
                f'echo "$(cat {self._old()})" > {self._any()}',
                f"{{ echo a; cat {self._old()}; }} > {self._any()}",
                f"cat < {self._old()} > {self._any()} 2>&1",
                f"sort {self._old()} > {self._any()}",
                f"dd if={self._one('a.txt', 'nonl', 'missing')} of={self._any()} 2>/dev/null",
            )
        )

    def _sed(self) -> str:
        script = shlex.quote(self._rng.choice(SCRIPTS))
        return str(
            self._one(
                f"sed -i{self._one('', ' -e')} {script} {self._one(self._old(), self._old(), self._glob())}",
                f"sed {script} {self._old()} > {self._any()}",
            )
        )

    def _many(self) -> str:
        return str(
            self._one(
                f"for f in {self._one(self._glob(), self._old())} {self._old()}; do {self._rng.choice(BODIES)}; done",
                f"find {self._one('src', 'src/deep')} -type f -name '{self._one('*.txt', '*.py', 'c*')}' "
                f"{self._rng.choice(FOUND)}",
                f"grep -rl {self._one('one', 'x', 'return')} {self._one('src', 'src/deep', 'a.txt')} "
                f"| xargs {self._one('sed -i s/x/y/', 'rm', 'rm -f', 'chmod +x')}",
            )
        )

    def _flow(self) -> str:
        return str(
            self._one(
                f"[ {self._one('-f', '-d', '-e', '-s', '! -f', '-L')} {self._any()} ]",
                f"if [ -f {self._any()} ]; then {self._simple()}; else {self._simple()}; fi",
                f"cd {self._one('src', 'src/deep', 'd2', 'missing', 'dlink', '..', 'a.txt')}",
                self._one("true", "false", "test 1 = 2", "set -e", "export V=3", "W=$(cat a.txt)", "exit 3", "! true"),
                f"{self._one('bash -c', 'sh -c', 'timeout 5 bash -c')} {shlex.quote(self._simple())}",
                f"({self._simple()}); {self._simple()}",
                f"ls {self._any()} && {self._simple()}",
                f"fn() {{ {self._simple()}; }}; fn && fn",
            )
        )

    def _python(self) -> str:
        code = self._rng.choice(PYTHON).replace("{A}", repr(self._name(0.2))).replace("{B}", repr(self._name()))
        return str(
            self._one(
                f"python3 - <<'EOF'\n{code}EOF\n",
                f"python3 -c {shlex.quote(code)} > {self._any()}",
                f"cat > ../fix.py <<'EOF'\n{code}EOF\npython3 ../fix.py",
            )
        )

    def _git(self) -> str:
        old, star = self._old(), "'*.txt'"
        return str(
            self._one(
                f"git add {self._one('-A', '.', '-u', self._any(), old, '-f ' + self._any(), star, 'src')}",
                f"git commit {self._one('', '-q ', '-a ', '-qa ')}{self._one('', '--allow-empty ', '--amend ')}-m x",
                f"git checkout {self._one('', 'HEAD ', 'HEAD~1 ', '-q ')}-- {self._one('.', old, 'src', star)}",
                f"git checkout {self._one('.', old, 'HEAD~1 a.txt', '-b nb', '-q -b nb2 HEAD~1', '-', 'nb', '-f')}",
                f"git restore {self._one('', '--staged ', '-SW ', '-s HEAD~1 ')}{self._one('.', old, 'src')}",
                f"git reset -q {self._one('', '--hard', '--soft HEAD~1', 'HEAD~1', '--hard HEAD~1', '-- ' + old, old)}",
                f"git stash {self._one('', 'push', 'push -u', '-u', 'pop', 'pop', 'apply', 'drop', 'list', 'save')}",
                f"git clean -{self._one('f', 'fd', 'fdx', 'fx', 'n', 'fdX', 'd')}q {self._one('', '', 'src', 'd2')}",
                f"git rm -q {self._one('', '--cached ', '-f ', '-r ', '-rf ')}{self._one(old, 'src', star)}",
                f"git mv {self._one('', '-f ')}{old} {self._any()}",
                f"git {self._one('revert --no-edit HEAD', 'cherry-pick HEAD~1', 'revert -n HEAD', 'switch -c sw')}",
                f"git show {self._one('HEAD', 'HEAD~1')}:{self._one('a.txt', 'nonl', 'src/b.py')} > {self._any()}",
                f"git diff {self._one('', 'HEAD', '--cached')} > {self._one('../p.diff', 'p.diff')}",
                f"git apply {self._one('', '--cached', '--index', '-R')} <<'E'\n{PATCH}{self._one('', NEW_FILE)}E\n",
            )
        )


class Verdict(NamedTuple):
    """What a comparison found."""

    wrong: list[tuple[str, object, object]]
    """Path (``INDEX`` before it for the index), what was derived, what is there."""
    known: int
    unknown: int
    is_suspected: bool = False
    """Whether a line is said to have perhaps changed files that nothing names: then nothing is proven by it."""


class Bed:
    """A repository to copy, and the means to run a program in a copy of it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        home = root / "home"
        home.mkdir(parents=True)
        (home / ".gitconfig").write_text("[user]\nname=a\nemail=a@example.invalid\n[advice]\ndetachedHead=false\n")
        self._environment = {
            "PATH": os.defpath.replace("/bin:/usr/bin", "/usr/bin:/bin"),
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": "1700000000 +0000",
            "GIT_COMMITTER_DATE": "1700000000 +0000",
        }
        self._template = root / "template"
        self._make()
        self._repository = Repository(self._template / ".git", name="o/r")
        self._base = self._run(self._template, "git rev-parse HEAD")[0].strip()
        self._tree = self._repository.tree_of(self._base)

    def close(self) -> None:
        """End the helper process."""
        self._repository.close()

    def _make(self) -> None:
        self._template.mkdir()
        self._run(self._template, "git init -q -b trunk --template=")
        for files in ({**FILES, "a.txt": b"one\n", "gone.txt": b"gone\n"}, FILES):
            for name, data in files.items():
                path = self._template / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            (self._template / "run.sh").chmod(0o755)
            for name, target in LINKS.items():
                if not (self._template / name).is_symlink():
                    (self._template / name).symlink_to(target)
            self._run(self._template, "git add -A . && git commit -q -m x && rm -f gone.txt")
        self._run(self._template, "git repack -adq && rm -rf .git/logs")

    def _run(self, folder: Path, line: str) -> tuple[str, int]:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace"), done.returncode

    def compare(self, program: list[str], *, with_codes: bool) -> Verdict:
        """Run a program and carry it out; ``with_codes``: the recording has the exit codes."""
        area = self._root / "case"
        shutil.rmtree(area, ignore_errors=True)
        work = area / "w"
        shutil.copytree(self._template, work, symlinks=True)
        self._run(work, "git update-index -q --refresh")
        effects = Effects(WorkingFiles(self._repository, self._tree, self._base))
        effects.id_digits = 7  # as git has it in so small a repository
        is_suspected = False
        for line in program:
            text, code = self._run(work, line)
            observation = Observation(text=text, exit_code=code if with_codes else None)
            ran = run_line(effects, line, Context(prefixes=(str(work),)), observation)
            effects.lasting = frozenset()  # the next line has a shell of its own
            is_suspected = is_suspected or ran.suspicion is not None
        return self._held(effects, work)._replace(is_suspected=is_suspected)

    def compare_kept(self, program: list[str], *, with_codes: bool) -> Verdict:
        """The same in one shell that lives on from line to line."""
        area = self._root / "case"
        shutil.rmtree(area, ignore_errors=True)
        work = area / "w"
        shutil.copytree(self._template, work, symlinks=True)
        self._run(work, "git update-index -q --refresh")
        for number, line in enumerate(program):
            (area / f"line{number}").write_text(line)
        parts = (
            f". {area}/line{n} > {area}/out{n} 2>&1 < /dev/null; echo $? > {area}/code{n}" for n in range(len(program))
        )
        self._run(work, "\n".join(parts))
        effects = Effects(WorkingFiles(self._repository, self._tree, self._base))
        context = Context(prefixes=(str(work),))
        is_suspected = False
        for number, line in enumerate(program):
            if not (area / f"out{number}").exists():
                break  # the shell had ended
            text = (area / f"out{number}").read_bytes().decode("utf-8", "replace")
            code = (area / f"code{number}").read_text().strip() if (area / f"code{number}").exists() else ""
            observation = Observation(text=text, exit_code=int(code) if with_codes and code else None)
            ran = run_line(effects, line, context, observation)
            context = ran.context or context
            is_suspected = is_suspected or ran.suspicion is not None
        return self._held(effects, work)._replace(is_suspected=is_suspected)

    def _held(self, effects: Effects, work: Path) -> Verdict:
        real, base = _files(work), self._repository.files(self._tree)
        wrong: list[tuple[str, object, object]] = []
        known = unknown = 0
        for path in sorted({*real, *base, *effects.files.differing}):
            is_new = path in real and effects.files.get(path) is None and path not in effects.files.differing
            if effects.is_unknown(path) or (is_new and path not in base and effects.has_run_programs):
                unknown += 1
                continue
            known += 1
            if effects.files.get(path) != real.get(path):
                wrong.append((path, effects.files.get(path), real.get(path)))
        index = self._index(work)
        for path in sorted({*index, *base, *effects.versions.index.states}):
            state = UNSURE if effects.versions.doubt else effects.versions.index.get(path)
            if state is UNSURE:
                unknown += 1
                continue
            known += 1
            derived = None if state is None else (state[0], object_id("blob", state[1]))
            if derived != index.get(path):
                wrong.append((f"INDEX {path}", state, index.get(path)))
        return Verdict(wrong, known, unknown)

    def _index(self, work: Path) -> dict[str, tuple[str, str]]:
        listed = subprocess.run(
            ["git", "ls-files", "-sz"], cwd=work, env=self._environment, capture_output=True, check=True
        ).stdout
        found: dict[str, tuple[str, str]] = {}
        for row in filter(None, listed.split(b"\0")):
            head, _, path = row.partition(b"\t")
            mode, id_, stage = head.decode().split()
            found[text_path(path)] = (mode, id_ if stage == "0" else f"{id_} in a conflict")
        return found


def _files(folder: Path) -> dict[str, FileState]:
    """Every file and link of a work tree."""
    found: dict[str, FileState] = {}
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(folder / prefix) as entries:
            listed = list(entries)
        for entry in listed:
            path = f"{prefix}/{entry.name}".lstrip("/")
            if entry.is_symlink():
                found[path] = (SYMLINK, os.fsencode(Path(entry.path).readlink()))
            elif entry.is_dir():
                waiting += [] if entry.name == ".git" else [path]
            elif entry.name != ".git":
                is_executable = entry.stat().st_mode & stat.S_IXUSR
                found[path] = (EXECUTABLE if is_executable else FILE, Path(entry.path).read_bytes())
    return found
