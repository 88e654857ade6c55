"""Replace Ray's types in annotations by `Any`."""

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import QualifiedNameSource, Scope

from extractor.pipeline.rewrite.ray_meaning import Meaning


class AnnotationRules(cst.CSTTransformer):
    """Replaces Ray's types in annotations.

    Attributes:
        meaning: What nodes mean.
        notes: What was done, in short phrases.
        uses_any: Whether the module now needs `Any`.
    """

    def __init__(self, meaning: Meaning) -> None:
        super().__init__()
        self.meaning = meaning
        self.notes: dict[str, None] = {}
        self.uses_any = False
        self._in_annotation = 0

    def note(self, text: str) -> None:
        self.notes.setdefault(text)

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._in_annotation += 1

    def leave_Annotation(self, original_node: cst.Annotation, updated_node: cst.Annotation) -> cst.Annotation:
        self._in_annotation -= 1
        return updated_node

    def _any(self) -> cst.Name:
        self.uses_any = True
        self.note("annotations became Any")
        return cst.Name("Any")

    def _replace_ray(self, named: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        return self._any() if self._in_annotation and self.meaning.ray(named) is not None else updated

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> cst.BaseExpression:
        return self._replace_ray(original_node.value, updated_node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._replace_ray(original_node, updated_node)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._replace_ray(original_node, updated_node)

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        scope = self.meaning.scopes.get(original_node)
        if not self._in_annotation or not isinstance(scope, Scope) or "ray" not in original_node.value:
            return updated_node
        try:
            expression = cst.parse_expression(str(original_node.raw_value))
        except cst.ParserSyntaxError:
            return updated_node
        inner = _AnyInString(scope)
        changed = expression.visit(inner)
        if not inner.found or not isinstance(changed, cst.BaseExpression):
            return updated_node
        self._any()
        code = self.meaning.code(changed)
        return updated_node.with_changes(value=f"{updated_node.prefix}{updated_node.quote}{code}{updated_node.quote}")


class _AnyInString(cst.CSTTransformer):
    """Replaces Ray's types inside a string annotation."""

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope
        self.found = False

    def _replace_annotation(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        dotted = get_full_name_for_node(original)
        names = self.scope.get_qualified_names_for(dotted) if dotted else set()
        if any(item.source is QualifiedNameSource.IMPORT and item.name.partition(".")[0] == "ray" for item in names):
            self.found = True
            return cst.Name("Any")
        return updated

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._replace_annotation(original_node, updated_node)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._replace_annotation(original_node, updated_node)
