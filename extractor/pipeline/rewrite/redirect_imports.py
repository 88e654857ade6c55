"""Write the imports as planned."""

from collections.abc import Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node

from extractor.pipeline.index.syntax import LINE_LENGTH, write_import
from extractor.pipeline.rewrite.plan_imports import ImportLine, ImportPlan

_NOQA = "# noqa: F401"


def redirect_imports(module: cst.Module, plan: ImportPlan) -> tuple[cst.Module, bool]:
    """Apply a plan that was made for exactly this module's text.

    Returns:
        The module, and whether a compound statement went: its test may have been the last use of some import.
    """
    transform = RedirectImports(module, plan)
    body: list[cst.BaseStatement] = []
    top = 0
    for statement in module.body:
        tops = range(top, top + (len(statement.body) if isinstance(statement, cst.SimpleStatementLine) else 1))
        top = tops.stop
        touched = [index for index in tops if index in plan.first]
        if not touched:
            body.append(statement)
            continue
        transform.ordinal = plan.first[touched[0]] - 1
        made = _leave_empty_line(statement) if tops.start in plan.dead else statement.visit(transform)
        if isinstance(made, cst.FlattenSentinel):
            body += made
        elif isinstance(made, cst.BaseStatement):
            body.append(made)
    lost_block = transform.lost_block or bool(plan.dead)
    left = _remove_empty_lines(body)
    if left and isinstance(body[0], cst.SimpleStatementLine) and not body[0].body:
        left[0] = _strip_blank_lines(left[0], module.header)
    return module.with_changes(body=left), lost_block


class RedirectImports(cst.CSTTransformer):
    """Replaces imports by ordinal, and removes blocks that this empties."""

    def __init__(self, module: cst.Module, plan: ImportPlan) -> None:
        super().__init__()
        self.config = module.config_for_parsing
        self.code = module.code_for_node
        self.plan = plan
        self.ordinal = -1
        self.depth = 0
        self.lost_block = False

    # statements

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BaseExpression) and not self.plan.chains:
            return False
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            return False
        return super().on_visit(node)

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self.depth += 1

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        made = self._rewrite_line(original_node.body, updated_node.body)
        if made is None:
            return updated_node
        if not made:
            return updated_node.with_changes(body=[])
        if len(original_node.body) > 1:
            body = [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for small, _ in made]
            return updated_node.with_changes(body=body)
        out: list[cst.BaseStatement] = []
        for index, (small, unused) in enumerate(made):
            leading = updated_node.leading_lines if index == 0 else ()
            trailing = updated_node.trailing_whitespace
            if unused and trailing.comment is None:
                trailing = trailing.with_changes(whitespace=cst.SimpleWhitespace("  "), comment=cst.Comment(_NOQA))
            elif index and trailing.comment is not None and "noqa" not in trailing.comment.value:
                trailing = trailing.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
            out.append(cst.SimpleStatementLine([small], leading_lines=leading, trailing_whitespace=trailing))
        return out[0] if len(out) == 1 else cst.FlattenSentinel(out)

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        made = self._rewrite_line(original_node.body, updated_node.body)
        if made is None:
            return updated_node
        body = [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for small, _ in made]
        return updated_node.with_changes(body=body or [cst.Pass()])

    def _rewrite_line(
        self, originals: Sequence[cst.BaseSmallStatement], updated: Sequence[cst.BaseSmallStatement]
    ) -> list[tuple[cst.BaseSmallStatement, bool]] | None:
        """Return a line's planned statements with "needs noqa"; None if unchanged."""
        made: list[tuple[cst.BaseSmallStatement, bool]] = []
        changed = False
        for original, small in zip(originals, updated, strict=True):
            lines = None
            if isinstance(original, (cst.Import, cst.ImportFrom)):
                self.ordinal += 1
                lines = self.plan.lines.get(self.ordinal)
            if lines is None:
                made.append((small, False))
                continue
            changed = True
            assert isinstance(original, (cst.Import, cst.ImportFrom))
            for line in lines:
                made.append((self._write(original, line, single=len(lines) == 1), line.unused))
        return made if changed else None

    def _write(self, original: cst.Import | cst.ImportFrom, line: ImportLine, single: bool) -> cst.BaseSmallStatement:
        if (
            single
            and isinstance(original, cst.ImportFrom)
            and line.names
            and not isinstance(original.names, cst.ImportStar)
        ):
            pairs = [(_name(alias), _name_local(alias)) for alias in original.names]
            dotted = cst.parse_expression(line.module)
            assert isinstance(dotted, (cst.Name, cst.Attribute))
            moved = original.with_changes(module=dotted, relative=())
            if pairs == list(line.names) and (original.lpar is not None or self._fits(self.code(moved))):
                return moved
            if _has_comment(original):
                left = _keep_only(original.names, [pair in line.names for pair in pairs])
                if [(_name(alias), _name_local(alias)) for alias in left] == list(line.names):
                    return moved.with_changes(names=left)
        return self._parse(_lay_out(line, 4 * self.depth))

    def _fits(self, code: str) -> bool:
        return 4 * self.depth + len(code) <= LINE_LENGTH

    def _parse(self, text: str) -> cst.BaseSmallStatement:
        statement = cst.parse_statement(text, config=self.config)
        assert isinstance(statement, cst.SimpleStatementLine)
        return statement.body[0]

    # blocks

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.BaseSuite:
        self.depth -= 1
        return updated_node.with_changes(body=_remove_empty_lines(updated_node.body))

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.BaseStatement:
        if isinstance(updated_node.orelse, cst.Else) and _is_emptied(original_node.orelse, updated_node.orelse):
            updated_node = updated_node.with_changes(orelse=None)
        if not _is_emptied(original_node, updated_node) or updated_node.orelse is not None:
            return updated_node
        self.lost_block = True
        return _leave_empty_line(updated_node)

    def leave_Try(self, original_node: cst.Try, updated_node: cst.Try) -> cst.BaseStatement:
        gone = _is_emptied(original_node, updated_node) and updated_node.finalbody is None
        if not gone or updated_node.orelse is not None:
            return updated_node
        self.lost_block = True
        return _leave_empty_line(updated_node)

    # chains

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        if self.plan.chains:
            name = get_full_name_for_node(original_node)
            new = (
                self.plan.chains.get(tuple(name.split(".")))
                if name and isinstance(original_node.value, (cst.Name, cst.Attribute))
                else None
            )
            if new is not None:
                return cst.parse_expression(new).with_changes(lpar=updated_node.lpar, rpar=updated_node.rpar)
        return updated_node


def _leave_empty_line(statement: cst.BaseStatement) -> cst.SimpleStatementLine:
    """Return an empty line that keeps the removed statement's blank lines."""
    return cst.SimpleStatementLine(body=[], leading_lines=getattr(statement, "leading_lines", ()))


def _is_emptied(original: cst.CSTNode | None, updated: cst.CSTNode | None) -> bool:
    before, after = getattr(original, "body", None), getattr(updated, "body", None)
    return (
        isinstance(before, cst.IndentedBlock)
        and isinstance(after, cst.IndentedBlock)
        and bool(before.body)
        and not after.body
    )


def _remove_empty_lines(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Remove emptied lines, and hand on their blank lines."""
    out: list[cst.BaseStatement] = []
    blank: list[cst.EmptyLine] = []
    for statement in body:
        leading = list(getattr(statement, "leading_lines", ()))
        if isinstance(statement, cst.SimpleStatementLine) and not statement.body:
            own = [line for line in leading if line.comment is None]
            blank = own if len(own) > len(blank) else blank
            continue
        has = sum(1 for line in leading if line.comment is None)
        if len(blank) > has:
            if out or not isinstance(statement, cst.SimpleStatementLine):
                leading = [*blank[: len(blank) - has], *leading]
            statement = statement.with_changes(leading_lines=leading)
        blank = []
        out.append(statement)
    return out


def _strip_blank_lines(statement: cst.BaseStatement, header: Sequence[cst.EmptyLine]) -> cst.BaseStatement:
    """Return the first statement without blank lines above it."""
    leading = list(getattr(statement, "leading_lines", ()))
    above = 0
    for line in reversed(header):
        if line.comment is not None:
            break
        above += 1
    while leading and leading[0].comment is None and (not header or above):
        leading.pop(0)
        above -= 1
    return statement.with_changes(leading_lines=leading)


def _name(alias: cst.ImportAlias) -> str:
    return get_full_name_for_node(alias.name) or ""


def _name_local(alias: cst.ImportAlias) -> str:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return _name(alias)


def _lay_out(line: ImportLine, indent: int) -> str:
    """Return the statement as ruff would lay it out."""
    if not line.names:
        parent, _, leaf = line.module.rpartition(".")
        if line.local == leaf and parent:
            return f"from {parent} import {leaf}"
        return f"import {line.module}" + (f" as {line.local}" if line.local else "")
    names = [name if name == local else f"{name} as {local}" for name, local in line.names]
    return write_import(f"from {line.module}", names, LINE_LENGTH - indent)


def _keep_only(items: Sequence[cst.ImportAlias], keep: Sequence[bool]) -> list[cst.ImportAlias]:
    """Keep marked items; the last gets the former last comma."""
    left = [item for item, stays in zip(items, keep, strict=True) if stays]
    if left and not keep[-1]:
        left[-1] = left[-1].with_changes(comma=items[-1].comma)
    return left


def _has_comment(node: cst.CSTNode) -> bool:
    """Return True where a comment stands between the elements."""
    return isinstance(node, cst.Comment) or any(_has_comment(child) for child in node.children)
