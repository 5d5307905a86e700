# SPDX-License-Identifier: MIT
"""Text and Markdown as lines of mdoc, for conf/man/generate.

markdown-it-py parses. The converters that Debian packages (lowdown, go-md2man, cmark-gfm, pandoc)
write man(7), which can't stand in a page of mdoc, and what they write does not pass mandoc -Tlint.
"""

import re
import textwrap

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

CELL_MAX = 20  # characters of a cell that is not filled


def escape(text):
    """Text in a line. mandoc would take name() for a function in no font."""
    return text.replace("\\", "\\e").replace("'", "\\(aq").replace("()", "\\&()")


def guard(lines):
    """Lines, none of which begins like a request."""
    return ["\\&" + line if line.startswith((".", "\\(aq")) else line for line in lines]


def literal(lines):
    return [".Bd -literal", *guard(escape(line.expandtabs(8)) for line in lines), ".Ed"]


def wrapped(text):
    """A line for each sentence, as mdoc wants them."""
    found = []
    text = " ".join(text.split())
    for sentence in re.sub(r"(?<=\S)([.?!][)\"]?(?:\\fP)?) ", r"\1\n", text).split("\n"):
        found += textwrap.wrap(sentence, 78, break_long_words=False, break_on_hyphens=False)
    return guard(found)


def inline(node):
    """Marks in a line as fonts; links as their text."""
    if node.type == "text":
        return escape(node.content)
    if node.type == "code_inline":
        return "\\fB" + escape(node.content).replace("-", "\\-") + "\\fP"
    text = " " if node.type == "softbreak" else "".join(map(inline, node.children))
    font = {"strong": "\\fB", "em": "\\fI"}.get(node.type)
    return font + text + "\\fP" if font else text


def table(node):
    """As tbl(7) wants it: long columns share what is left of the line's width."""
    rows = [[inline(cell) for cell in row.children] for part in node.children
            for row in part.children]
    long = [max(len(re.sub(r"\\f[BIP]|\\(?=[-&])", "", cell)) for cell in column) > CELL_MAX
            for column in zip(*rows)]
    out = [".TS", " ".join("lbx" if x else "lb" for x in long),
           " ".join("lx" if x else "l" for x in long) + "."]
    if not any(rows[0]):
        del rows[0], out[1]
    for row in rows:
        out += "\t".join("T{\n%s\nT}" % "\n".join(wrapped(cell)) if x and cell else cell or "\\&"
                         for x, cell in zip(long, row)).split("\n")
    return [*out, ".TE"]


def block(node):
    if node.type == "fence":
        return literal(node.content.rstrip("\n").split("\n"))
    if node.type == "heading":
        return ['.Sh "%s"' % inline(node).upper() if node.tag == "h2" else
                '.Ss "%s"' % inline(node)]
    if node.type == "paragraph":
        return [".Pp", *wrapped(inline(node))]
    if node.type == "table":
        return [".Pp", *table(node)]
    out = [line for child in node.children for line in block(child)]
    if node.type == "list_item":
        return [".It", *out[1:]]
    if node.type.endswith("_list"):
        return [".Pp", ".Bl -enum" if node.type == "ordered_list" else ".Bl -bullet", *out, ".El"]
    return out


def markdown(text):
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    return block(SyntaxTreeNode(parser.parse(text)))
