"""Which line runs a task's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from handoff.errors import InputError
from handoff.instances.reading import Answer
from handoff.judging.command import PYTEST, command_of
from handoff.judging.settings import NO_RULE, TestRule, programs_version, rule_for

PATCH = "--- a/tests/a b/test_x.py\n+++ b/tests/a b/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"


def test_the_user_comes_before_the_instance_and_pytest_last() -> None:
    answer = Answer(instance_id="i", fail_to_pass=("t.py::a", "b/u.py::c[x y]"), command="run {files}")
    assert command_of(answer, TestRule(command="mine")) == "mine"
    assert command_of(answer, NO_RULE) == "run b/u.py t.py"
    plain = Answer(instance_id="i", fail_to_pass=answer.fail_to_pass)
    assert command_of(plain, NO_RULE) == PYTEST.replace("{files}", "b/u.py t.py")
    assert command_of(Answer(instance_id="i", fail_to_pass=("a (b.C)",)), NO_RULE) is None


def test_files_that_hold_no_names_are_those_of_the_test_patch() -> None:
    answer = Answer(instance_id="i", fail_to_pass=("test_a (x.C)",), test_patch=PATCH)
    rule = TestRule(command="go {files} ; {modules} ; {labels}")
    assert command_of(answer, rule) == "go 'tests/a b/test_x.py' ; 'tests.a b.test_x' ; 'a b.test_x'"


@pytest.mark.parametrize("name", ["$(reboot).py", "-rf.py", "a;b.py", "`x`.py", "../../x.py", "/etc/x.py", ".git/x.py"])
def test_a_file_is_one_word_inside_the_repository(name: str) -> None:
    line = command_of(Answer(instance_id="i", fail_to_pass=(f"{name}::t",)), TestRule(command="go {files}"))
    assert line in ("go ", f"go '{name}'", "go ./-rf.py")
    assert name not in ("../../x.py", "/etc/x.py", ".git/x.py") or line == "go "


def test_a_repository_has_its_own_rule_before_its_owners_and_that_of_all() -> None:
    rules = {name: TestRule(command=name) for name in ("*", "Acme/*", "acme/pager")}
    found = [rule_for(rules, repo).command for repo in ("https://github.com/ACME/pager", "acme/other", "o/x", None)]
    assert found == ["acme/pager", "Acme/*", "*", "*"]
    assert rule_for({}, "o/x") == NO_RULE


@pytest.mark.parametrize("fields", [{"programs": ("venv",)}, {"image": "--privileged"}, {"env": {"A=B": "x"}}])
def test_settings_that_cannot_be_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(InputError):
        TestRule(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("swebench/sweb.eval.x86_64.{id:_1776_}:latest", "swebench/sweb.eval.x86_64.acme_1776_pager-1:latest"),
        ("o/{id}:1", "o/acme__pager-1:1"),
        ("o/plain:1", "o/plain:1"),
        (None, None),
    ],
)
def test_an_image_may_be_named_after_its_task(image: str | None, name: str | None) -> None:
    rule = TestRule(image=image)
    assert rule.image_of("Acme__pager-1") == name
    assert rule.image_of("--privileged -v /:/x") in (None, image)


def test_a_package_that_is_added_is_noticed(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    before = programs_version((str(tmp_path),))
    (packages / "attrs-1.dist-info").mkdir()
    assert before != programs_version((str(tmp_path),)) and programs_version(()) == ""
