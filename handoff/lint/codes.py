"""Every finding by its code. ``docs/lint.md`` lists them; a code never changes its meaning."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


class Code(NamedTuple):
    """What a code means."""

    severity: Severity
    meaning: str
    remedy: str


class Finding(NamedTuple):
    """One thing that is wrong at one place."""

    code: str
    place: str
    """Path in the row, as ``messages[3].tool_calls[0]``; empty: the whole row or file."""
    detail: str
    """Of unknown origin: escape it."""


def _error(meaning: str, remedy: str) -> Code:
    return Code("error", meaning, remedy)


def _warning(meaning: str, remedy: str) -> Code:
    return Code("warning", meaning, remedy)


CODES: Mapping[str, Code] = MappingProxyType(
    {
        # calls and their arguments
        "C01": _error("a call has no id where its results name one", "give every call an id"),
        "C02": _error("two calls of a conversation have one id", "make ids unique"),
        "C03": _error("a call is not answered before anybody else speaks", "add its result, or drop the call"),
        "C04": _error("a result answers no call before it", "drop the result, or restore its call"),
        "C05": _error("a result names no call", "set tool_call_id"),
        "C06": _error("a call names a tool that is not declared", "declare it in tools"),
        "C07": _error("there are calls and no tools: the model never sees what it may call", "add the definitions"),
        "C08": _error(
            "a tool's definition holds nulls, as Arrow pads them", "write tools as JSON text or Json features"
        ),
        "C09": _error("tools are no list of definitions with names", "write them in OpenAI form"),
        "C10": _error("two tools have one name", "name each once"),
        "A01": _error("arguments are not JSON", "encode them as JSON"),
        "A02": _error("arguments are no object", "wrap them in an object"),
        "A03": _error("arguments are text where this format's templates iterate over an object", "decode them"),
        "A04": _error("arguments are an object where this format wants text", "encode them"),
        "A05": _error("arguments are encoded twice", "encode them once"),
        "A06": _error("an argument is null that its tool does not allow to be", "drop it: Arrow filled it in"),
        # turns
        "R01": _error("a role that the format does not know", "use its own roles"),
        "R02": _error("a system message after the beginning", "move it to the front"),
        "R03": _error("two user turns in a row: some trainers drop the row", "join them"),
        "R04": _error("two replies in a row", "join them"),
        "R05": _error("a demonstration does not end with a reply", "cut what comes after the last reply"),
        "R06": _error("no turn of a user", "put the task there"),
        "R07": _error("a reply without text, thought or call", "drop it"),
        "R08": _error("content is null", "write an empty text"),
        "R09": _error("a turn has no content", "write an empty text"),
        "R10": _error("a result before any reply", "drop it"),
        "R11": _error("a conversation without turns", "drop the row"),
        # masks
        "M01": _error("nothing of the row is trained", "drop the row, or mark its replies"),
        "M02": _error("a turn of the user or system is trained", "mark it as context"),
        "M03": _error("what the predecessor did, or a view of it, is trained", "mark it as context"),
        "M04": _error("ids, labels and weights differ in length", "write one for each token"),
        "M05": _error("a label is another token than its id", "labels are the ids, or -100"),
        "M06": _error(
            "a weight or mask has a value that its format does not know", "masks are 0 or 1, weights 0 or more"
        ),
        "M07": _error("a character or token bears weight and is masked, or the other way round", "make both agree"),
        "M08": _error("training goes on behind the end of a turn: the mask is off by one", "shift it back"),
        "M09": _error("the end of a trained turn is not trained: the model never learns to stop", "train it"),
        "M10": _error("a span lies outside its text", "offsets count characters of the stored text"),
        "M11": _error("spans overlap, or leave gaps where every character has to have one", "cover each once"),
        "M12": _error("a span of context bears weight", "set its weight to 0"),
        "M13": _error("an empty thought is trained", "leave the tags out"),
        "M14": _error("weights and flags of a turn disagree", "weight belongs to trained turns alone"),
        "M15": _error("an id is no token", "ids are whole numbers from 0"),
        # texts
        "T01": _warning("a notice of the harness is trained", "give it no weight"),
        "T02": _error("a secret", "replace it by a placeholder"),
        "T03": _error("half of a surrogate pair", "drop the row"),
        "T04": _error("longer than the context", "split it, or drop it"),
        "T05": _error("the chat template refuses the row", "use another template, or drop the row"),
        "T06": _warning("the chat template does not show a field", "use a template that does, or expect it unlearned"),
        # pairs
        "P01": _error("chosen and rejected say the same", "drop the pair"),
        "P02": _error("the two sides have different prompts", "give both the same prompt"),
        "P03": _error("a side of a pair has no reply", "drop the pair"),
        # sets
        "D01": _error("a row occurs twice", "drop one"),
        "D02": _warning("a row says the same as another, blanks and case aside", "drop one"),
        "D03": _error("two rows have one id and differ", "make ids hashes of the content"),
        "D04": _error("a repository or task is on both sides of a split", "split by repository"),
        # files
        "F01": _error("a row cannot be read", "write one JSON object a line"),
        "F02": _error("a row of no known shape", "name its columns as a trainer does"),
        "F03": _error("a file is not the one of the manifest", "export again"),
        "F04": _error("a file has another number of rows than the manifest says", "export again"),
        "F05": _error("a file of the manifest is missing", "export again"),
        "F06": _warning("rows of several shapes in one file", "write a file for each"),
    }
)
