"""A shell line as commands: the plain path equals the grammar, and quoting is resolved as the shell does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff import shell
from handoff.shell import Word, commands, parse

WORDS = st.sampled_from(
    ["cat", "a.py", "src/b.py", "-n", "--x=1", "12", "cd", "@", "a=b", "if", "time", "2", "%", "a,b"]
)
WORDS |= st.sampled_from(["../x", "-", "!", "then", "+x", ":", "a:b", "'a b'", '"c d"', "x'y z'w", "''"])
WORDS |= st.sampled_from([r"'s/a\.b/$c/'", r'"a\|b"', r'"\"q\" \$x"', r"""x"\\"'`y`'""", r"'\'", r'"\a"'])
JOINS = st.sampled_from([" ", "  ", " && ", " || ", "; ", " | ", " 2>&1 ", " 2>/dev/null ", ";", "|", "&&", "\t"])
JOINS |= st.sampled_from([" > a.txt ", " >>b/c.txt", " > /dev/null 2>&1 ", ">x; "])


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(WORDS, JOINS), min_size=1, max_size=9))
def test_the_plain_path_equals_the_grammar(parts: list[tuple[str, str]]) -> None:
    """Whenever the plain path answers, it answers as the full parse does."""
    line = "".join(word + join for word, join in parts)
    found = shell._simple(line)
    if found:
        assert found == parse(line)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["cat", "cd /a && cat", "python -", "python3 x.py", "a | tee", "cat 2", "x;", ""]),
    st.sampled_from(["", " > f.py", " >> f.py", ">f.py"]),
    st.sampled_from(["", " > g.py", " && ls", " | tee x"]),
    st.text(alphabet=st.sampled_from("ab \n\t$`'\"\\EOF<é"), max_size=25),
    st.sampled_from(["\nEOF", "\nEOF\n", "\nEOF\nls", ""]),
)
def test_the_plain_path_reads_heredocs_as_the_grammar_does(head: str, to: str, tail: str, body: str, end: str) -> None:
    """Files are mostly written by heredoc, so those have a plain path too. Where the grammar itself gives up (a body of
    one backslash), there is nothing to compare with."""
    line = f"{head}{to} << 'EOF'{tail}\n{body}{end}"
    found = shell._simple(line)
    full = parse(line)
    if found and all(command.is_certain for command in full):
        assert found == full


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab '\"\\$`;|&<>(){}[]*?~#=\n\t!-\x00\x1b\ud800é"), max_size=40))
def test_no_line_raises(line: str) -> None:
    """Hostile text is read or given up, never an error; the plain path still agrees."""
    commands(line)
    found = shell._simple(line)
    if found:
        assert found == parse(line)


def test_a_heredoc_keeps_its_text() -> None:
    """Leading blanks and empty lines are text; a quoted delimiter makes it literal."""
    (cat, after) = parse("cat > f.py <<'EOF' && echo hi\n\n  a $x\nEOF\n")
    assert cat.stdin == Word("\n  a $x\n")
    assert [r.target.text for r in cat.redirects] == ["f.py"]
    assert after.connector == "&&"
    (open_,) = parse("cat <<EOF\n$x\nEOF")
    assert open_.stdin == Word("$x\n", False)
    (tabbed,) = parse("cat <<-EOF\n\ta\n\tEOF")
    assert tabbed.stdin == Word("a\n")


def test_a_pipeline_after_a_heredoc_goes_on() -> None:
    """The rest of the heredoc's line belongs to the same pipeline, and a lone dash is a word."""
    python, tee = parse("python - <<'EOF' | tee log\nprint(1)\nEOF")
    assert [w.text for w in python.words] == ["python", "-"]
    assert (tee.connector, tee.position, tee.length) == ("|", 1, 2)


def test_quoting_is_resolved() -> None:
    """Words come as the program would get them; what the shell would expand says so."""
    (command,) = parse(r"""x a\ b 'c d' "e \"f\"" $'g\n' "h$i" *.py ~/j {k,l}""")
    assert [w.text for w in command.words[:5]] == ["x", "a b", "c d", 'e "f"', "g\n"]
    assert all(w.is_literal for w in command.words[:5])
    assert not any(w.is_literal for w in command.words[5:])


def test_branches_and_subshells_are_marked() -> None:
    """What may not have run is conditional; a subshell has its own scope."""
    found = parse("if true; then rm a; fi; (cd x; ls); b || c")
    by_name = {c.words[0].text: c for c in found}
    assert by_name["rm"].is_conditional
    assert by_name["ls"].scope
    assert not by_name["b"].is_conditional
    assert by_name["c"].is_conditional


def test_a_redirection_inside_a_list_stays_with_its_pipeline() -> None:
    """The grammar reads ``a && b 2>&1 | c`` as a pipe of the whole list; the shell does not."""
    a, b, c = parse("a && b 2>&1 | c")
    assert (a.length, b.length, c.position) == (1, 2, 1)


def test_substitutions_come_before_the_command_that_uses_them() -> None:
    """``$(…)`` runs a command too."""
    assert [c.words[0].text for c in parse("echo $(git diff)")] == ["git", "echo"]


def test_a_giant_line_is_given_up() -> None:
    """One uncertain command stands for what was not read."""
    (command,) = commands("x " * 200_000)
    assert not command.is_certain


def test_a_loop_over_plain_words_is_read_for_each() -> None:
    """Once for every word, with the word in its place; any other loop may run or not."""
    found = parse('for f in a b; do cat "$f.py" $f/${f}x; done')
    assert [[w.text for w in c.words] for c in found] == [["cat", "a.py", "a/ax"], ["cat", "b.py", "b/bx"]]
    assert not any(c.is_conditional for c in found)
    for line in (
        "for f in *.py; do cat $f; done",
        "for f in a b; do cat $f || break; done",
        "while x; do cat $f; done",
    ):
        *_, last = parse(line)
        assert last.is_conditional, line


def test_a_variable_has_the_value_that_the_line_gives_it() -> None:
    """As long as it is certain: not from a branch, a subshell, a list of words, or what a program may have set."""
    known = {
        "x=a; cat $x": "a",
        "export x=a; cat ${x}.py": "a.py",
        "x=a; (x=b; true); cat $x": "a",
        "x=a y=b; cat $x/$y.py": "a/b.py",
    }
    for line, text in known.items():
        assert parse(line)[-1].words[1] == Word(text), line
    for line in (
        "x=a cat $x",
        "x='a b'; cat $x",
        "c && x=a || x=b; cat $x",
        "x=a; read x; cat $x",
        "x=a; x+=b; cat $x",
    ):
        assert not parse(line)[-1].words[1].is_literal, line


def test_words_that_the_grammar_cuts_are_whole() -> None:
    """It reads ``$a/$b.py`` as two words, of which the second would be a file."""
    (command,) = parse("rm $a/$b.py")
    assert command.words == (Word("rm"), Word("$a/$b.py", False))


def test_text_of_a_heredoc_is_never_a_word() -> None:
    """The grammar takes pieces of it for arguments."""
    for line in ("cat << 'EOF' > g.py\n\\<\nEOF", "cat << 'EOF'\n\\ E\nEOF"):
        (command,) = parse(line)
        assert [w.text for w in command.words] == ["cat"]


def test_whose_exit_code_a_line_has() -> None:
    """Not that of a negated command, and not that of one in the background."""
    assert [c.owns_status for c in parse("! a; b & c")] == [False, False, True]


def test_hostile_lines_are_given_up_early() -> None:
    """What nests deeper than any person writes never reaches the grammar, whose cost would explode."""
    for line in (
        "A=(" * 9_000,
        "f() { x " * 3_000,
        "cmd " + "{ " * 9_000,
        "cat <<A <<B\nx\n" * 2_000,
        "a) b;; " * 4_000,
    ):
        (command,) = commands(line)
        assert not command.is_certain
    assert len(commands("echo a; " * 300)) == 300


def test_no_text_of_any_script_kills_the_reader() -> None:
    """In a process of its own: what ends the grammar's scanner ends no test run."""
    code = (
        "import random, sys; from handoff.shell import commands\n"
        "r = random.Random(1)\n"
        "for _ in range(4000):\n"
        "    n = r.randrange(1, 400)\n"
        "    own = lambda: r.choice((r.randrange(1, 128), r.randrange(128, 0xD800), r.randrange(0xE000, 0x110000)))\n"
        "    commands(''.join(chr(own()) for _ in range(n)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


@pytest.mark.parametrize("name", ["é", "中文", "🙂", "a\u2028b", "\ufeffls", "Ünï/cödé.py"])
def test_letters_of_every_script_are_parts_of_words(name: str) -> None:
    (first, second) = commands(f"cat {name} && echo 'x{name}' > out-{name}.txt; # {name}")
    assert [word.text for word in first.words] == ["cat", name] and first.is_certain
    assert second.words[1].text == f"x{name}" and second.is_certain


def test_a_heredoc_that_ends_in_another_script_is_not_read_with_certainty() -> None:
    assert not any(command.is_certain for command in commands("cat <<É > f\nx\nÜ\ny\nÉ\n"))
    (told,) = commands("cat <<EOF > f\nÉ\nEOF\n")
    assert told.is_certain and told.stdin is not None and told.stdin.text == "É\n"
