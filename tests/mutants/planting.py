"""Plants a bug in a source text: finds its place by function and tokens, not by quoted lines.

What is replaced may be a fragment (`if due_ms > now_ms:`), which `tokenize` refuses. So a regular
expression splits the text here. A string is one token, also an f-string.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from functools import cache

import attrs

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>(?i:[rbuft]{0,2})(?:'{3}(?:\\.|.)*?'{3}|"{3}(?:\\.|.)*?"{3}
        |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<other>\d(?:[eE][+-]|[\w.])*|\w+|\*\*=|//=|>>=|<<=|\.\.\.
        |->|:=|\*\*|//|>>|<<|[-+*/%&|^@=!<>]=|[^\s\\])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSING = frozenset(")]}")


class MisplacedMutantError(Exception):
    """The place of a planted bug is not in the source, or not exactly once."""


@attrs.frozen
class Token:
    """One token of a source, and where it stands."""

    text: str
    begin: int
    end: int


@attrs.frozen
class ParsedSource:
    """The tokens of a source, and the tokens (from, to) of each function and class by name."""

    text: str
    tokens: list[Token]
    spans: dict[str, list[tuple[int, int]]]


def tokens_of(text: str) -> list[Token]:
    """Without comments, and without a comma before a closing bracket."""
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "comment":
            continue
        if match.group() in _CLOSING and found and found[-1].text == ",":
            found.pop()
        found.append(Token(match.group(), match.start(), match.end()))
    return found


@cache
def parse(source: str) -> ParsedSource:
    """Cached: many bugs are planted in the same file."""
    tokens = tokens_of(source)
    begins = [token.begin for token in tokens]
    line_begins = [0]
    for line in source.splitlines(keepends=True):
        line_begins.append(line_begins[-1] + len(line))
    spans: dict[str, list[tuple[int, int]]] = {"": [(0, len(tokens))]}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}.{child.name}" if prefix else child.name
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                assert child.end_lineno is not None
                places = (line_begins[first - 1], line_begins[child.end_lineno])
                span = (bisect_left(begins, places[0]), bisect_left(begins, places[1]))
                spans.setdefault(name, []).append(span)
            visit(child, name)

    visit(ast.parse(source), "")
    return ParsedSource(source, tokens, spans)


def planted(source: str, function: str, replace: str, by: str) -> str:
    """The source with `by` in the place of `replace`, which the function has exactly once.

    `function` is a qualified name (`Shard.decide`), or that of a class, or "" for the module. A
    property and its setter have one name: `replace` has to be once in both together.
    """
    parsed = parse(source)
    first, last = _place(parsed, function, [token.text for token in tokens_of(replace)])
    begin, end = parsed.tokens[first].begin, parsed.tokens[last].end
    line_begin = source.rfind("\n", 0, begin) + 1
    line = source[line_begin:begin]
    margin = len(line) - len(line.lstrip(" ")) - _indentation(replace)
    new = _indented(by.strip("\n"), margin)
    if line.strip():
        new = new.lstrip(" ")
    else:
        begin = line_begin
    if not new.strip() and begin == line_begin:
        rest = re.compile(r"[ ]*(?:\#[^\n]*)?\n").match(source, end)
        end = rest.end() if rest else end
    mutated = source[:begin] + new + source[end:]
    compile(mutated, function, "exec")
    return mutated


def _place(parsed: ParsedSource, function: str, wanted: list[str]) -> tuple[int, int]:
    """The first and the last token of the only place."""
    spans = parsed.spans.get(function)
    if not wanted or spans is None:
        raise MisplacedMutantError(f"there is no {function}" if wanted else "nothing to replace")
    size = len(wanted)
    places = [
        place
        for begin, end in spans
        for place in range(begin, end - size + 1)
        if parsed.tokens[place].text == wanted[0]
        and [token.text for token in parsed.tokens[place : place + size]] == wanted
    ]
    if len(places) != 1:
        raise MisplacedMutantError(f"{len(places)} times in {function}: {' '.join(wanted)}")
    return places[0], places[0] + size - 1


def _indentation(text: str) -> int:
    """Of its first line."""
    text = text.lstrip("\n")
    return len(text) - len(text.lstrip(" "))


def _indented(text: str, margin: int) -> str:
    """Moves each line to the right, but no line that begins within a string."""
    kept = {
        token.begin + place + 1
        for token in tokens_of(text)
        for place, character in enumerate(token.text)
        if character == "\n"
    }
    lines, begin = [], 0
    for line in text.splitlines(keepends=True):
        moves = begin not in kept and line.strip()
        lines.append(" " * margin + line if moves else line)
        begin += len(line)
    return "".join(lines)
