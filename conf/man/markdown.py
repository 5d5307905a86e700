# SPDX-License-Identifier: MIT
"""Markdown as mdoc, as far as kvd's documents use it: for conf/man/generate.

Headings, paragraphs, lists of one level, tables, fenced text; code, bold, italics and links in a
line. A table becomes one of tbl(7), whose long columns share what is left of the line's width.
"""

import re
import textwrap

CELL_MAX = 20  # characters of a cell that is not filled


def plain(text):
    text = text.replace("\\", "\\e").replace("'", "\\(aq")
    return re.sub(r"\(\)", r"\\&()", text)


def inline(text):
    """A line's marks as fonts; links as their text."""
    out = []
    for i, piece in enumerate(text.split("`")):
        if i % 2:
            out.append("\\fB" + plain(piece).replace("-", "\\-") + "\\fP")
            continue
        piece = re.sub(r"<[^>]*>", "", plain(piece))
        piece = re.sub(r"\*\*(.+?)\*\*", r"\\fB\1\\fP", piece)
        out.append(re.sub(r"(?<![\w*])\*(\w[^*]*?)\*(?![\w*])", r"\\fI\1\\fP", piece))
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", "".join(out))


def sentences(text):
    """A line for each sentence, as mdoc wants them, none of which begins like a request."""
    text = re.sub(r"(?<=\S)([.?!][)\"]?(?:\\fP)?) +", r"\1\n", inline(text))
    found = [line for sentence in text.split("\n") for line in
             textwrap.wrap(sentence, 78, break_long_words=False, break_on_hyphens=False)]
    return ["\\&" + line if line.startswith((".", "\\(aq")) else line for line in found]


def literal(lines):
    body = [plain(line.expandtabs(8)) for line in lines]
    return [".Bd -literal", *("\\&" + line if line.startswith(".") else line for line in body),
            ".Ed"]


def shown(text):
    """Without marks."""
    return re.sub(r"\\f[BIP]|\\(?=[-&])", "", inline(text))


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if "|" in line else []


def table(lines):
    rows = [cells(line) for line in lines]
    heading, body = rows[0], rows[2:]
    count = max(map(len, rows))
    rows = [row + [""] * (count - len(row)) for row in ([heading] if any(heading) else []) + body]
    is_long = [max(len(shown(row[i])) for row in rows) > CELL_MAX for i in range(count)]
    formats = [" ".join("lx" if long else "l" for long in is_long) + "."]
    if any(heading):
        formats.insert(0, " ".join("lbx" if long else "lb" for long in is_long))
    out = [".TS", *formats]
    for row in rows:
        fields = []
        for long, cell in zip(is_long, row):
            text = "\n".join(sentences(cell))
            fields.append("T{\n" + text + "\nT}" if long and text else text or "\\&")
        out += "\t".join(fields).split("\n")
    return [*out, ".TE"]


def items(lines):
    """A list: an item begins with "- " or a number, and its further lines are indented."""
    numbered, out = lines[0][0].isdigit(), []
    for item in re.split(r"\n(?=(?:-|\d+\.) )", "\n".join(lines)):
        text = re.sub(r"\s*\n\s*", " ", re.sub(r"^(-|\d+\.) ", "", item))
        out += [".It", *sentences(text)]
    return [".Bl -enum" if numbered else ".Bl -bullet", *out, ".El"]


def blocks(text):
    """Paragraphs, and fenced text with its first fence, each a list of lines."""
    found, fenced = [[]], False
    for line in text:
        if line.startswith("```"):
            fenced = not fenced
            if fenced:
                found += [[line]]
            else:
                found += [[]]
        elif fenced:
            found[-1].append(line)
        elif not line.strip() or line.startswith("#"):
            found += [[line], []] if line.strip() else [[]]
        elif re.match(r"(-|\d+\.) ", line) and found[-1] and not re.match(
                r"(-|\d+\.) ", found[-1][0]):
            found += [[line]]
        else:
            found[-1].append(line)
    return filter(None, found)


def pages(text):
    out = []
    for block in blocks(text):
        first = block[0]
        if first.startswith("```"):
            out += literal(block[1:])
        elif first.startswith("## "):
            out.append('.Sh "%s"' % inline(first[3:].upper()))
        elif first.startswith("#"):
            out.append('.Ss "%s"' % inline(first.lstrip("#").strip()))
        elif first.startswith("|"):
            out += [".Pp", *table(block)]
        elif re.match(r"(-|\d+\.) ", first):
            out += [".Pp", *items(block)]
        else:
            out += [".Pp", *sentences(" ".join(line.strip() for line in block))]
    return out
