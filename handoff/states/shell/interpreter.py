"""The statements of a small Python program, interpreted on the state.

Expressions are in ``expressions``, what may be done with values in ``values``, what functions do in ``functions``.
"""

from __future__ import annotations

import ast
from typing import Any

from handoff.states.shell.expressions import Break, Continue, Expressions, Return
from handoff.states.shell.openfile import OpenFile
from handoff.states.shell.values import (
    MODULES,
    Failed,
    NotUnderstood,
    checked,
)


class Program(Expressions):
    """One program being interpreted."""

    def run(self, body: list[ast.stmt]) -> None:
        """Statements in order."""
        for statement in body:
            self.count_step()
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name not in MODULES or (alias.asname and "." in alias.name):
                        raise NotUnderstood
                    root = alias.name.split(".")[0]
                    self.set(alias.asname or root, ("module", alias.name if alias.asname else root))
            case ast.ImportFrom(module=str(module), names=names, level=0):
                for alias in names:
                    if f"{module}.{alias.name}" not in self.functions and alias.name != "Path":
                        raise NotUnderstood
                    self.set(alias.asname or alias.name, ("function", f"{module}.{alias.name}"))
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self.assign(target, found)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                old, more = self.named(name), self.value(value)
                if isinstance(old, list):  # changed in place
                    if not isinstance(op, ast.Add):
                        raise NotUnderstood
                    old += self.work.made(self.items(more))
                    checked(old)
                else:
                    self.set(name, self.operated(op, old, more))
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assert(test=test):
                if not self.value(test):
                    raise Failed
            case ast.If(test=test, body=body, orelse=orelse):
                self.run(body if self.value(test) else orelse)
            case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                self._for(target, iterable, body)
            case ast.With(items=items, body=body):
                files: list[OpenFile] = []
                for item in items:
                    opened = self.value(item.context_expr)
                    if not isinstance(opened, OpenFile):
                        raise NotUnderstood
                    opened.is_held = True
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, opened)
                    files.append(opened)
                self.run(body)
                for opened in files:
                    opened.close()
            case ast.FunctionDef(name=name, args=arguments, body=body, decorator_list=[]):
                self.set(name, self.defined(arguments, body))
            case ast.Return(value=value):
                raise Return(None if value is None else self.value(value))
            case ast.Try(body=body, orelse=orelse, finalbody=finalbody):
                try:
                    self.run([*body, *orelse, *finalbody])
                except Failed as failed:
                    raise NotUnderstood from failed
            case ast.Raise():
                raise Failed
            case ast.Delete(targets=[ast.Subscript(value=value, slice=index)]):
                self._delete(self.value(value), self.value(index))
            case ast.Pass():
                pass
            case ast.Break():
                raise Break
            case ast.Continue():
                raise Continue
            case _:
                raise NotUnderstood

    def _for(self, target: ast.expr, iterable: ast.expr, body: list[ast.stmt]) -> None:
        try:
            for item in self.lazy(self.value(iterable)):
                self.assign(target, item)
                try:
                    self.run(body)
                except Continue:
                    continue
                except Break:
                    break
        except RuntimeError as error:  # a dictionary that changes while a loop goes over it
            raise NotUnderstood from error

    def _delete(self, holder: Any, key: Any) -> None:
        if not isinstance(holder, dict | list) or (isinstance(holder, list) and not isinstance(key, int | slice)):
            raise NotUnderstood
        try:
            del holder[key]
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise Failed from error
