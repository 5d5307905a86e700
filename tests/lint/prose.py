# SPDX-License-Identifier: MIT
"""Finds comments, strings and running text in the files of the tree, for this folder's checks."""
import io
import re
import tokenize

# What takes the place of code, and what comes before the first word of a comment and of a string.
CODE, COMMENT, STRING = "\0", "\1", "\2"

C_TOKEN = re.compile(r"(?P<comment>/\*.*?\*/|(?://[^\n]*\n[ \t]*)*//[^\n]*)|"
                     r"(?P<string>\"(?:\\.|[^\"\\])*\"(?:[\s\\]*\"(?:\\.|[^\"\\])*\")*)|"
                     r"(?P<code>'(?:\\.|[^'\\\n])'|[^/\"']+|.)", re.S)
C_LEADER = re.compile(r"^[ \t]*(?:\*+/?|//[/!]?)|\*+/$", re.M)
HEAD = re.compile(r"#!|# (?:SPDX|shellcheck)")
HASH_BLOCK = re.compile(r"(?:^|(?<=\s))(?:" + HEAD.pattern + r"[^\n]*|#[^\n]*"
                        r"(?:\n[ \t]*#[^\n]*)*)", re.M)
HASH_LEADER = re.compile(r"^[ \t]*#+!?", re.M)
INI_LINE = re.compile(r"^(;?)([^\n]*)", re.M)
MD_CODE = re.compile(r"^```.*?^```$|`[^`]*`", re.M | re.S)


def blank(text, by=CODE):
    return re.sub(r"[^\n]", by, text)


def of_comment(text, leader):
    """A comment without what marks its lines; blanks keep columns."""
    return COMMENT + leader.sub(lambda m: blank(m[0], " "), text)[1:]


def c_prose(text):
    def prose(match):
        if match["comment"]:
            return of_comment(" " + match[0][2:] if match[0][1] == "*" else match[0], C_LEADER)
        if match["string"]:
            return STRING + re.sub(r'"|\\n|\\(?=\n)', " ", match[0][1:-1]) + CODE
        return blank(match[0])
    return C_TOKEN.sub(prose, text)


def script_prose(text, code):
    """Comments of a script, and if @code is set everything else as it is: strings can't be told."""
    prose, at = [], 0
    for match in HASH_BLOCK.finditer(text):
        between = text[at:match.start()]
        prose += [between if code else blank(between), of_comment(match[0], HASH_LEADER)]
        at = match.end()
    return "".join([*prose, text[at:] if code else blank(text[at:])])


def goes_on(lines, row, column):
    """Whether a comment goes on with that of the line before."""
    before = lines[row - 2].lstrip() if row > 1 else ""
    return not lines[row - 1][:column].strip() and before.startswith("#") and not HEAD.match(before)


def python_prose(text):
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    prose, end_before = list(blank(text)), 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            continue
        begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        words = token.string
        if token.type == tokenize.STRING:
            quotes = len(words) - len(words.lstrip("rbfuRBFU")) + (3 if '"""' in words else 1)
            mark = COMMENT if '"""' in words else STRING
            words = " " * (quotes - 1) + mark + words[quotes:-1] + CODE
        elif goes_on(lines, *token.start):
            words = " " + words[1:]
            prose[end_before:begin] = text[end_before:begin]
        else:
            words = COMMENT + words[1:]
        prose[begin:end] = words
        end_before = end
    return "".join(prose)


def prose_of(path, text, script_code=True):
    """
    The text with CODE for what is no prose and marks where prose begins, on the same lines. Code of
    shell scripts and Makefiles is prose unless @script_code is false.
    """
    if path.endswith((".c", ".h", ".rs")):
        return c_prose(text)
    if path.endswith(".md"):
        return MD_CODE.sub(lambda m: blank(m[0]), text)
    if path.endswith(".ini"):
        return INI_LINE.sub(lambda m: STRING + m[2].lstrip() if m[1] else blank(m[0]), text)
    if path.endswith(".py") or re.match(r"#!.*python", text):
        return python_prose(text)
    return script_prose(text, script_code)
