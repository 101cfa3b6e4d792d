"""Problems of a request, each in one plain sentence instead of the words of pydantic and Starlette."""

from collections.abc import Awaitable, Callable
from difflib import get_close_matches
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from casmap.errors import UserError
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


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """An HTTPException: ours have a sentence; those of Starlette's router do not say what to do."""
    assert isinstance(error, HTTPException)
    detail, path = error.detail, request.url.path
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method").replace(", ", " or ")
        detail = f"{path} takes {allowed}, not {request.method}."
    elif error.status_code == 404 and detail == "Not Found":
        known = [found for route in request.app.routes if (found := getattr(route, "path", "")).startswith("/api/")]
        near = get_close_matches(path, known, n=1)
        advice = f"did you mean {near[0]}?" if near else "/api/openapi.json lists all addresses."
        detail = f"The server has no address {shown(path)}: {advice}"
    return JSONResponse({"detail": detail}, error.status_code, error.headers)


async def _wrong(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return JSONResponse({"detail": problem_sentence(error.errors()[0])}, 422)


async def _failed(_request: Request, _error: Exception) -> JSONResponse:
    return JSONResponse({"detail": "The server failed: it printed the reason."}, 500)


# The answer to each kind of error.
ANSWERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[JSONResponse]]] = {
    HTTPException: _refused, UserError: _wrong, RequestValidationError: _invalid, Exception: _failed,
}  # fmt: skip
