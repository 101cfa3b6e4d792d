"""The pip command that adds an optional dependency to casmap, wherever casmap was installed from."""

from pathlib import Path


def install_hint(*extras: str) -> str:
    """The pip command that installs extras from where casmap was installed: a clone, a wheel file or an index.

    >>> install_hint("serve").startswith("pip install ")
    True
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution  # slow (20 ms) and only needed for messages

    wanted = f"[{','.join(extras)}]"
    try:
        origin = json.loads(distribution("casmap").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # imported from a source tree
        origin = {"url": Path(__file__).parents[2].as_uri(), "dir_info": {"editable": True}}
    return _command(origin, wanted)


def _command(origin: dict[str, object], wanted: str) -> str:
    """The pip command for an installation with this content of direct_url.json (PEP 610; {}: from an index).

    >>> _command({"url": "file:///home/me/casmap", "dir_info": {"editable": True}}, "[serve]")
    "pip install --editable '/home/me/casmap[serve]'"
    >>> _command({"url": "file:///tmp/casmap-0.2.0-py3-none-any.whl", "archive_info": {}}, "[serve]")
    "pip install 'casmap[serve] @ file:///tmp/casmap-0.2.0-py3-none-any.whl'"
    >>> _command({"url": "https://host/casmap", "vcs_info": {"vcs": "git", "commit_id": "0b880db"}}, "[serve]")
    "pip install 'casmap[serve] @ git+https://host/casmap@0b880db'"
    >>> _command({}, "[serve]")
    "pip install 'casmap[serve]'"
    """
    if not origin:
        return f"pip install 'casmap{wanted}'"
    url, folder = str(origin["url"]), origin.get("dir_info")
    if isinstance(folder, dict):
        from urllib.request import url2pathname

        editable = "--editable " if folder.get("editable") else ""
        return f"pip install {editable}'{url2pathname(url.removeprefix('file://'))}{wanted}'"
    if isinstance(vcs := origin.get("vcs_info"), dict):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"pip install 'casmap{wanted} @ {url}'"
