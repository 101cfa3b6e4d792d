"""Problems of a request, each in one plain sentence instead of pydantic's words."""

from typing import Any

from casmap.io.reading import shown

# What to do about an invalid option, by pydantic's name of the problem.
ADVICE = {
    "literal_error": "choose {expected}", "float_parsing": "give a number", "bool_parsing": "give true or false",
    "greater_than_equal": "give at least {ge:g}", "less_than_equal": "give at most {le:g}",
    "string_too_long": "give at most {max_length} characters",
}  # fmt: skip


def problem_sentence(problem: dict[str, Any]) -> str:
    """One sentence for a problem that pydantic found in a request.

    >>> problem_sentence({"type": "greater_than_equal", "loc": ("query", "alpha"), "input": "-1", "ctx": {"ge": 0.0}})
    "The option alpha cannot be '-1': give at least 0."
    >>> problem_sentence({"type": "missing", "loc": ("body", "photos")})
    'The request has no photos: send them as files of a form, in the field photos.'
    >>> problem_sentence({"type": "missing", "loc": ("body", "tasks")})
    "The body of the request is invalid at 'tasks': see /api/openapi.json."
    """
    name = problem["loc"][-1]
    if problem["loc"][:2] == ("body", "photos"):  # the number of a photo may follow
        return "The request has no photos: send them as files of a form, in the field photos."
    if problem["loc"][0] == "body":
        return f"The body of the request is invalid at {shown(name)}: see /api/openapi.json."
    if problem["type"] == "missing":
        return f"The request has no option {name}: add ?{name}=... to the address (see /api/openapi.json)."
    advice = ADVICE.get(problem["type"], "see /api/openapi.json").format(**problem.get("ctx", {}))
    return f"The option {name} cannot be {shown(problem['input'])}: {advice}."
